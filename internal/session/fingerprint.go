package session

import (
	"iter"
	"strings"
	"time"
	"unicode/utf8"

	"precept/internal/wire"
)

// The bounds of Quotes: conversations are remembered by scope, for as long as a pause may last.
const (
	maxQuoteScopes        = 512
	maxQuoteConversations = 64 // conversations with tools, and as many without tools
	maxAnswers            = 6  // answers and tool results of a conversation, and phrases of a reply to a side request
	maxReplyPhrases       = 8  // phrases per reply
	maxCallPhrases        = 4  // phrases of a call
	quoteTTL              = 30 * time.Minute
	sideRequestGap        = 2 * time.Minute // time in which the next side request follows a side request
	minPieceBytes         = 12              // bytes of a searched text; shorter texts occur by chance
	minUniqueBytes        = 24              // bytes of a text that identifies a conversation alone
	maxPieceBytes         = 80
	maxSearchedBytes      = 128 << 10 // searched bytes of a request
	maxNewestItems        = 8         // items from the end in which the newest words and results are looked for
	maxTailBytes          = 80        // maximum number of bytes that follow a quotation at the end of a request
	tailWordLimit         = 4         // a quotation at the end of a request is followed by fewer words than this
)

// fingerprint holds the texts by which a conversation is recognised in a quotation.
type fingerprint struct {
	id          ID
	hasTools    bool // the first request had tools
	system      uint64
	tools       []uint32
	hash        uint64    // hash of the tools' names
	at          time.Time // time of the newest request
	userWords   [2]part   // first and newest words of the user
	answers     []part    // answers and tool results, newest last
	callPhrases []part    // phrases in the calls of the newest reply
	sidePhrases []part    // phrases of the newest reply to a side request about the conversation
	sideAt      time.Time // time of that side request
}

// part is a piece of a text. A quotation repeats the piece unchanged.
type part struct {
	text string
	rest int // number of bytes from the piece to the end of the text
}

// recall adds the texts of the history in a request: the first words of the user, and the answers.
func (x *fingerprint) recall(req *wire.Request) {
	if it, ok := opening(req); ok {
		x.userWords[0] = distinctive(it.Words)
	}
	for i := max(0, req.Len()-maxSearchedItems); i < req.Len(); i++ {
		if req.Role(i) == wire.RoleAssistant {
			x.addAnswer(req.Item(i).Text)
		}
	}
}

// addAnswer stores the first distinctive piece of an answer or of a tool result.
func (x *fingerprint) addAnswer(text string) {
	w := distinctive(text)
	if w.text == "" {
		return
	}
	x.answers = push(x.answers, w, maxAnswers)
}

// newest returns the newest words of the user in the items from index from on, and the later tool
// results.
func newest(req *wire.Request, from int) (words string, results []string) {
	for i := req.Len() - 1; i >= max(from, req.Len()-maxNewestItems); i-- {
		it := req.Item(i)
		for _, r := range it.Results {
			if len(results) < 2 {
				results = append(results, r.Text)
			}
		}
		if it.Role == wire.RoleUser && it.Words != "" {
			return it.Words, results
		}
	}
	return "", results
}

// distinctive returns the first long piece of a text without characters that a quotation would
// escape, or an empty piece.
func distinctive(text string) part {
	for p, pos := range pieces(text) {
		return part{strings.Clone(p), len(text) - pos}
	}
	return part{}
}

// phrases appends long pieces of a text to list, until list has limit entries. A piece needs a space:
// the names of JSON fields, which many texts share, contain no spaces.
func phrases(list []part, text string, limit int) []part {
	for p := range pieces(text) {
		if len(list) >= limit {
			break
		}
		if len(p) >= minUniqueBytes && strings.Contains(p, " ") {
			list = append(list, part{text: strings.Clone(p)})
		}
	}
	return list
}

// pieces yields the pieces between escaped characters, with their positions.
func pieces(text string) iter.Seq2[string, int] {
	text = text[:min(len(text), 4<<10)]
	return func(yield func(string, int) bool) {
		for from := 0; len(text)-from >= minPieceBytes; {
			n := from
			for n < min(len(text), from+maxPieceBytes) && !escaped(text[n]) {
				n++
			}
			end := n
			for end < len(text) && end > from && !utf8.RuneStart(text[end]) {
				end--
			}
			if p := strings.TrimSpace(text[from:end]); len(p) >= minPieceBytes && !yield(p, from) {
				return
			}
			from = n + 1
		}
	}
}

// escaped reports whether JSON, markup or a template writes the character differently.
func escaped(c byte) bool { return c < ' ' || strings.IndexByte("\"\\<>&'`{}", c) >= 0 }
