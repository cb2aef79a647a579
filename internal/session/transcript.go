package session

import (
	"slices"
	"strings"
	"sync"

	"github.com/cespare/xxhash/v2"

	"precept/internal/wire"
)

// Some agents send the task and the whole history in one message: an agent on a completions API, or a chat with a
// formatting template. The next request's text is the previous text with an insertion near the end, which contains the
// first line of the answer.

// transcript is the newest state of a conversation in a single growing message.
type transcript struct {
	id              ID
	size            int // newest text's length in bytes
	insertionPoints [maxInsertionPoints]insertionPoint
	listHash        uint64   // hash of the newest request's message list
	answer          []string // newest answer's first lines
	unanswered      bool     // the newest text has no answer yet
	extended        bool     // the conversation was continued at least once
}

// insertionPoint is a position near the end of a text, such as before a template's last lines, where the next text may
// contain the answer.
type insertionPoint struct {
	at            int
	before, after uint64 // hashes of the surrounding text
	bytesAfter    int
}

const (
	maxTranscriptKeys    = 1024 // texts with the same first line have the same key
	maxTranscriptsPerKey = 64
	maxInsertionPoints   = 4
	transcriptHead       = 128     // bytes of the first line in the key
	answerLines          = 4       // stored lines per answer
	maxAnswerLine        = 80      // in bytes
	minAnswerLine        = 12      // in bytes
	maxComparedBytes     = 8 << 20 // bytes hashed per request, in addition to twice the text's length
)

type transcripts struct {
	mu    sync.Mutex
	known recent[transcriptKey, []*transcript]
}

func (r *Resolved) transcriptKey(system uint64, text string) transcriptKey {
	line, _, _ := strings.Cut(text, "\n")
	return transcriptKey{r.scope, system, xxhash.Sum64String(line[:min(len(line), transcriptHead)])}
}

func findInsertionPoints(text string) (points [maxInsertionPoints]insertionPoint) {
	end := len(text)
	for i := range points {
		after := strings.TrimSpace(text[end:])
		before := strings.TrimRight(text[:end], " \t\r\n")
		points[i] = insertionPoint{len(before), xxhash.Sum64String(before), xxhash.Sum64String(after), len(after)}
		if end = strings.LastIndexByte(before, '\n'); end <= 0 {
			break
		}
	}
	return points
}

// candidates returns the conversations with the highest matchScore for the text. The text becomes the first
// conversation's newest text.
func (t *transcripts) candidates(r *Resolved, text string) (ids []ID) {
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

// bestMatches returns the conversations with the highest matchScore for the text. If there are none, it returns a
// conversation with the same newest list, which the request repeats.
func (t *transcripts) bestMatches(r *Resolved, text string) (best []*transcript) {
	var repeated []*transcript
	highest, p := 0, prefixes{text: text, remainingBytes: maxComparedBytes + 2*len(text), sums: map[int]uint64{}}
	for _, x := range slices.Backward(t.known.values[r.transcript]) {
		switch score := x.matchScore(&p); {
		case score > highest:
			best, highest = append(best[:0], x), score
		case score == highest && score > 0:
			best = append(best, x)
		case x.extended && x.unanswered && x.listHash == r.list.hash:
			repeated = append(repeated[:0], x)
		}
	}
	if len(best) > 0 {
		return best
	}
	return repeated
}

// matchScore rates the text as the conversation's next text, by the length of the common prefix, and then by the number
// of answer lines in the insertion. The score is 0 if the text does not continue the conversation.
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

// prefixes caches prefix hashes for a text, because many conversations may be compared with the text.
type prefixes struct {
	text           string
	remainingBytes int            // may still be read
	sums           map[int]uint64 // by prefix length
}

// spend reports whether n more bytes may be read.
func (p *prefixes) spend(n int) bool {
	p.remainingBytes -= n
	return p.remainingBytes >= 0
}

func (p *prefixes) hash(n int) uint64 {
	sum, ok := p.sums[n]
	if !ok && p.spend(n) {
		sum = xxhash.Sum64String(p.text[:n])
		p.sums[n] = sum
	}
	return sum
}

func (t *transcript) setText(text string, list uint64) {
	t.size, t.insertionPoints, t.listHash, t.unanswered = len(text), findInsertionPoints(text), list, true
}

func (t *transcripts) add(r *Resolved, req *wire.Request) {
	text := onlyText(req)
	if text == "" || r.transcript == (transcriptKey{}) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	sameKey := t.known.values[r.transcript]
	if slices.ContainsFunc(sameKey, func(x *transcript) bool { return x.id == r.ID }) {
		return // the text was added before
	}
	x := &transcript{id: r.ID}
	x.setText(text, r.list.hash)
	t.known.put(r.transcript, appendNewest(sameKey, x, maxTranscriptsPerKey))
}

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
