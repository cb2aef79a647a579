package session

import (
	"slices"
	"strings"
	"sync"

	"github.com/cespare/xxhash/v2"

	"precept/internal/wire"
)

// Some agents send one message per request that holds the task and the whole history: an agent on a
// completions API, or a chat whose history is formatted by a template. The answers are not items of
// the list. A transcript recognises such a conversation by its text: the next text equals the
// previous text with an insertion near its end, and the insertion contains the first line of the answer.

// transcript is the newest state of a conversation whose requests have a single growing message.
type transcript struct {
	id              ID
	size            int // length of the newest text in bytes
	insertionPoints [maxInsertionPoints]insertionPoint
	list            uint64   // hash of the list of the newest request
	answer          []string // first lines of the newest answer
	unanswered      bool     // precept has not seen the answer to the newest text yet
	extended        bool     // the conversation has continued at least once
}

// insertionPoint is a position near the end of a text at which the next text may insert the answer. The bytes
// after the position are the fixed end of a template.
type insertionPoint struct {
	at            int
	before, after uint64 // hashes of the text before and after the position
	bytesAfter    int    // number of bytes after the position
}

// Bounds of the stored transcripts.
const (
	maxTranscriptKeys    = 1024 // maximum number of keys; a key covers the texts with the same first line
	maxTranscriptsPerKey = 64   // maximum number of conversations per key
	maxInsertionPoints   = 4
	transcriptHead       = 128     // number of bytes of the first line that the key covers
	answerLines          = 4       // maximum number of stored lines per answer
	maxAnswerLine        = 80      // maximum length of a stored line in bytes
	minAnswerLine        = 12      // minimum length of a stored line in bytes
	maxComparedBytes     = 8 << 20 // maximum number of bytes that a request compares, in addition to twice its size
)

// transcripts holds the transcripts of recent conversations.
type transcripts struct {
	mu    sync.Mutex
	known recent[transcriptKey, []*transcript]
}

func (r *Resolved) transcriptKey(system uint64, text string) transcriptKey {
	line, _, _ := strings.Cut(text, "\n")
	return transcriptKey{r.scope, system, xxhash.Sum64String(line[:min(len(line), transcriptHead)])}
}

// findInsertionPoints returns the possible insertion positions of a text: its end, and the starts of its last
// lines.
func findInsertionPoints(text string) (seams [maxInsertionPoints]insertionPoint) {
	end := len(text)
	for i := range seams {
		after := strings.TrimSpace(text[end:])
		before := strings.TrimRight(text[:end], " \t\r\n")
		seams[i] = insertionPoint{len(before), xxhash.Sum64String(before), xxhash.Sum64String(after), len(after)}
		if end = strings.LastIndexByte(before, '\n'); end <= 0 {
			break
		}
	}
	return seams
}

// candidatesOf returns the conversations whose rating of the text is highest, and stores the text in the
// first of these conversations.
func (t *transcripts) candidatesOf(r *Resolved, text string) (ids []ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	best := t.bestMatches(r, text)
	for _, x := range best {
		ids = append(ids, x.id)
	}
	if len(best) > 0 {
		best[0].extended = true
		best[0].setText(text, r.list.hash)
	}
	return ids
}

// bestMatches returns the conversations that have the longest prefix of the text. If the text continues no
// conversation, bestMatches returns a conversation whose newest request had an equal list.
func (t *transcripts) bestMatches(r *Resolved, text string) (best []*transcript) {
	var repeated []*transcript
	bestRate, p := 0, prefixes{text: text, remainingBytes: maxComparedBytes + 2*len(text), sums: map[int]uint64{}}
	for _, x := range slices.Backward(t.known.values[r.transcript]) {
		switch n := x.matchScore(&p); {
		case n > bestRate:
			best, bestRate = append(best[:0], x), n
		case n == bestRate && n > 0:
			best = append(best, x)
		case x.extended && x.unanswered && x.list == r.list.hash:
			repeated = append(repeated[:0], x)
		}
	}
	if len(best) > 0 {
		return best
	}
	return repeated
}

// matchScore returns the rating of a text as the next text of the conversation. A text with a longer common prefix has
// a higher rating. Of two texts with equal prefixes, the text whose insertion contains more lines of the answer has the
// higher rating. The rating is 0 if the text does not continue the conversation.
func (t *transcript) matchScore(p *prefixes) int {
	if t.unanswered || len(t.answer) == 0 || len(p.text) <= t.size {
		return 0
	}
	for _, s := range t.insertionPoints {
		end := len(p.text) - s.bytesAfter
		if s.at == 0 || end <= s.at || !p.spend(len(p.text)-s.at) {
			continue
		}
		added := p.text[s.at:end]
		if strings.Contains(added, t.answer[0]) && xxhash.Sum64String(p.text[end:]) == s.after && p.hash(s.at) == s.before {
			shown := 0
			for _, line := range t.answer {
				if strings.Contains(added, line) {
					shown++
				}
			}
			return s.at*(answerLines+1) + shown
		}
	}
	return 0
}

// prefixes caches hashes of a text's prefixes, because many conversations may be compared with the
// text. remainingBytes limits the bytes that are read.
type prefixes struct {
	text           string
	remainingBytes int
	sums           map[int]uint64 // hashes by prefix length
}

// spend subtracts n from remainingBytes and reports whether n bytes may be read.
func (p *prefixes) spend(n int) bool {
	p.remainingBytes -= n
	return p.remainingBytes >= 0
}

// hash returns the hash of the first n bytes of the text, 0 if too few bytes remain.
func (p *prefixes) hash(n int) uint64 {
	sum, ok := p.sums[n]
	if !ok && p.spend(n) {
		sum = xxhash.Sum64String(p.text[:n])
		p.sums[n] = sum
	}
	return sum
}

// setText stores the newest text, which has no answer yet.
func (t *transcript) setText(text string, list uint64) {
	t.size, t.insertionPoints, t.list, t.unanswered = len(text), findInsertionPoints(text), list, true
}

// add stores a conversation that may continue with a longer message.
func (t *transcripts) add(r *Resolved, req *wire.Request) {
	text := onlyText(req)
	if text == "" || r.transcript == (transcriptKey{}) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	alike := t.known.values[r.transcript]
	if slices.ContainsFunc(alike, func(x *transcript) bool { return x.id == r.ID }) {
		return // the request repeats the text
	}
	x := &transcript{id: r.ID}
	x.setText(text, r.list.hash)
	t.known.put(r.transcript, push(alike, x, maxTranscriptsPerKey))
}

// addAnswer stores the first lines of the answer to the newest text of a conversation.
func (t *transcripts) addAnswer(r *Resolved, answer string) {
	if r.transcript == (transcriptKey{}) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, x := range t.known.values[r.transcript] {
		if x.id != r.ID {
			continue
		}
		x.answer, x.unanswered = nil, false
		for line := range strings.SplitSeq(answer[:min(len(answer), 4<<10)], "\n") {
			if line = strings.TrimSpace(line); len(line) >= minAnswerLine && len(x.answer) < answerLines {
				x.answer = append(x.answer, strings.Clone(line[:min(len(line), maxAnswerLine)]))
			}
		}
	}
}
