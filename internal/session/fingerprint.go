package session

import (
	"iter"
	"strings"
	"time"
	"unicode/utf8"

	"precept/internal/wire"
)

// The bounds of Quotes, which finds the conversation that a side request (a title, a summary, a judgement) quotes.
const (
	maxQuoteScopes        = 512              // maximum number of scopes, which are the credentials with conversations
	maxQuoteConversations = 64               // maximum number per scope, once for conversations with tools and once for those without
	maxAnswers            = 6                // maximum number of answers and tool results of a conversation
	maxSidePhrases        = 6                // maximum number of phrases of a reply to a side request
	maxReplyCalls         = 8                // maximum number of calls of a reply that are read
	maxCallPhrases        = 4                // maximum number of phrases of a call
	quoteTTL              = 30 * time.Minute // maximum age of the newest request of a quoted conversation
	sideRequestGap        = 2 * time.Minute  // maximum gap between two side requests about a conversation
	minPieceBytes         = 12               // minimum length of a piece; shorter texts occur by chance
	minUniqueBytes        = 24               // minimum length of a piece that identifies a conversation on its own
	maxPieceBytes         = 80
	maxSearchedBytes      = 128 << 10 // maximum number of bytes of a request that are searched
	maxNewestItems        = 8         // number of last items in which the newest words and results are searched
	maxTailBytes          = 80        // maximum number of bytes after an answer that ends a request
	tailWordLimit         = 4         // fewer words than this may follow the answer
)

// fingerprint holds the texts by which a conversation is recognised in a quotation.
type fingerprint struct {
	id          ID
	hasTools    bool         // the first request had tools
	system      uint64       // hash of the system prompt
	tools       []uint32     // one short hash for each tool name
	toolsHash   uint64       // Request.ToolsHash of the newest request with tools
	lastSeen    time.Time    // time of the newest request
	userWords   [2]textPiece // first and newest words of the user
	answers     []textPiece  // answers and tool results, newest last
	callPhrases []textPiece  // phrases in the calls of the newest reply
	sidePhrases []textPiece  // phrases of the newest reply to a side request about the conversation
	sideAt      time.Time    // time of that side request
}

// textPiece is a piece of a text. A quotation repeats the piece unchanged.
type textPiece struct {
	text       string
	bytesToEnd int // number of bytes from the start of the piece to the end of the text; 0 means unknown
}

// addHistory adds the first words of the user and the answers in the messages of a request to the fingerprint.
func (f *fingerprint) addHistory(req *wire.Request) {
	if it, ok := firstUserItem(req); ok {
		f.userWords[0] = firstPiece(it.UserText)
	}
	for i := max(0, req.Len()-maxSearchedItems); i < req.Len(); i++ {
		if req.Role(i) == wire.RoleAssistant {
			f.addAnswer(req.Item(i).Text)
		}
	}
}

// addAnswer stores the first distinctive piece of an answer or of a tool result.
func (f *fingerprint) addAnswer(text string) {
	w := firstPiece(text)
	if w.text == "" {
		return
	}
	f.answers = push(f.answers, w, maxAnswers)
}

// newestTexts returns the newest words of the user, and the two newest tool results that accompany or follow these
// words. It skips the items before index from.
func newestTexts(req *wire.Request, from int) (words string, results []string) {
	for i := req.Len() - 1; i >= max(from, req.Len()-maxNewestItems); i-- {
		it := req.Item(i)
		for _, r := range it.Results {
			if len(results) < 2 {
				results = append(results, r.Text)
			}
		}
		if it.Role == wire.RoleUser && it.UserText != "" {
			return it.UserText, results
		}
	}
	return "", results
}

// firstPiece returns the first piece of a text, or an empty part if the text has no piece.
func firstPiece(text string) textPiece {
	for p, pos := range pieces(text) {
		return textPiece{strings.Clone(p), len(text) - pos}
	}
	return textPiece{}
}

// appendPhrases appends the pieces of a text that have a space and at least minUniqueBytes bytes, until list
// has limit entries. The names of JSON fields, which many texts share, contain no spaces.
func appendPhrases(list []textPiece, text string, limit int) []textPiece {
	for p := range pieces(text) {
		if len(list) >= limit {
			break
		}
		if len(p) >= minUniqueBytes && strings.Contains(p, " ") {
			list = append(list, textPiece{text: strings.Clone(p)})
		}
	}
	return list
}

// pieces splits the first 4 KiB of a text at characters that a quotation may escape, and after
// maxPieceBytes bytes. pieces yields each piece of at least minPieceBytes bytes, trimmed, with the offset of
// the untrimmed piece.
func pieces(text string) iter.Seq2[string, int] {
	text = text[:min(len(text), 4<<10)]
	return func(yield func(string, int) bool) {
		for from := 0; len(text)-from >= minPieceBytes; {
			n := from
			for n < min(len(text), from+maxPieceBytes) && !isEscaped(text[n]) {
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

// isEscaped reports whether JSON, markup or a template escapes the character.
func isEscaped(c byte) bool { return c < ' ' || strings.IndexByte("\"\\<>&'`{}", c) >= 0 }
