package session

import (
	"iter"
	"strings"
	"time"
	"unicode/utf8"

	"precept/internal/wire"
)

// Bounds for Quotes. A phrase is a textPiece with a space.
const (
	maxQuoteScopes        = 512              // credentials with conversations
	maxQuoteConversations = 64               // per credential, counted separately with and without tools
	maxAnswers            = 6                // answers and tool results per conversation
	maxSidePhrases        = 6                // phrases per reply to a side request
	maxReplyCalls         = 8                // calls read per reply
	maxCallPhrases        = 4                // phrases per call
	quoteTTL              = 30 * time.Minute // maximum age of a quoted conversation's newest request
	sideRequestGap        = 2 * time.Minute  // maximum time between two side requests about a conversation
	minPieceBytes         = 12               // a shorter text occurs by chance
	minUniqueBytes        = 24               // a single piece of this length identifies a conversation
	maxPieceBytes         = 80
	maxSearchedBytes      = 128 << 10 // searched bytes per request
	maxNewestItems        = 8         // last items searched for the newest words and results
	maxTailBytes          = 80        // maximum number of bytes after the answer at the end of a request
	tailWordLimit         = 4         // the answer is followed by fewer words than this
)

// fingerprint holds a conversation's tools and pieces of the conversation's texts. Quotes uses them to recognise a
// request that quotes the conversation.
type fingerprint struct {
	id          ID
	hasTools    bool
	system      uint64
	tools       []uint32     // short hashes of tool names
	toolsHash   uint64       // hash of the tools in the newest request with tools
	lastSeen    time.Time    // time of the newest request
	userWords   [2]textPiece // first and newest words
	answers     []textPiece  // answers and tool results, newest last
	callPhrases []textPiece  // from the calls in the newest reply
	sidePhrases []textPiece  // from the newest reply to a side request
	sideAt      time.Time    // when this reply was added
}

// textPiece is a piece of text that a quotation repeats unchanged.
type textPiece struct {
	text       string
	bytesToEnd int // from the piece's start to the text's end; 0 means unknown
}

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

func (f *fingerprint) addAnswer(text string) {
	w := firstPiece(text)
	if w.text == "" {
		return
	}
	f.answers = appendNewest(f.answers, w, maxAnswers)
}

// newestTexts returns the user's newest words, at or after index from, and the two newest tool results, which are in
// the same item or later.
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

func firstPiece(text string) textPiece {
	for p, pos := range pieces(text) {
		return textPiece{strings.Clone(p), len(text) - pos}
	}
	return textPiece{}
}

// appendPhrases appends those of the text's pieces that contain a space and have at least minUniqueBytes bytes, up to
// limit entries. A piece without a space may be a JSON field name, which many texts contain.
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

// pieces splits a text's first 4 KiB at characters that a quotation may escape, and after maxPieceBytes bytes. It
// yields trimmed pieces with the offset before trimming.
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

func isEscaped(c byte) bool { return c < ' ' || strings.IndexByte("\"\\<>&'`{}", c) >= 0 }
