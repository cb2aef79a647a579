package session

import (
	"strconv"
	"strings"

	"precept/internal/wire"
)

// An agent with a long history asks for a summary in a side request, and begins a new list with the
// summary as the user's words. If the agent keeps no call and no answer, only the lines of the
// summary tie the new list to the session.
const (
	minSummaryLine        = 48 // minimum length in bytes of a line that identifies a session together with the next line
	minLoneSummaryLine    = 80 // minimum length in bytes of a line that identifies a session alone
	maxReplySummaryKeys   = 64 // maximum number of stored keys of the reply to a side request; thoughts may precede the summary
	maxRequestSummaryKeys = 8  // maximum number of keys that are looked up per request
	summaryBytes          = 64 << 10
)

// summaryKeys returns the keys of the first long lines of a text. A very long line has a key of its own,
// and two successive long lines have a key together. A single shorter line has no key, because it may be
// a heading that all summaries of an agent share.
func summaryKeys(sc Scope, text string, limit int) []EchoKey {
	var keys []EchoKey
	add := func(lines ...string) {
		if len(keys) == limit {
			return
		}
		h := emptyHash
		for _, l := range lines {
			h = addText(addText(h, l), "\n")
		}
		keys = append(keys, echoKey(sc, "s:"+strconv.FormatUint(h, 16), 0))
	}
	before := ""
	for line := range strings.Lines(text[:min(len(text), summaryBytes)]) {
		if line = strings.TrimSpace(line); len(line) < minSummaryLine {
			continue
		}
		if len(line) >= minLoneSummaryLine {
			add(line)
		}
		if before != "" {
			add(before, line)
		}
		before = line
		if len(keys) == limit {
			break
		}
	}
	return keys
}

// openingSummaryKeys returns the summary keys of the first words of the user. If the words are the reply
// to a side request, the keys are in the index.
func openingSummaryKeys(sc Scope, req *wire.Request) []EchoKey {
	it, ok := firstUserItem(req)
	if !ok {
		return nil
	}
	return summaryKeys(sc, it.UserText, maxRequestSummaryKeys)
}

// firstWordsKey returns the key of the first words of the user. ok is false if the request does not
// contain the first words.
func firstWordsKey(sc Scope, req *wire.Request) (key EchoKey, ok bool) {
	words := OpeningHash(req)
	return echoKey(sc, "w:"+strconv.FormatUint(words, 16)+sc.Run, 0), words != 0
}
