package session

import (
	"strconv"
	"strings"

	"precept/internal/wire"
)

// An agent with a long history asks for a summary in a side request, and begins a new list with the summary as the
// user's words. Often only lines in the summary identify the session. Lengths are in bytes.
const (
	minSummaryLine        = 48 // two successive lines of this length identify a session
	minLoneSummaryLine    = 80 // one line of this length identifies a session
	maxReplySummaryKeys   = 64 // indexed per reply to a side request; the model's reasoning may precede the summary
	maxRequestSummaryKeys = 8  // looked up per request
	summaryBytes          = 64 << 10
)

// summaryKeys returns keys for a text's first long lines: for each line of at least minLoneSummaryLine bytes, and for
// each pair of successive lines of at least minSummaryLine bytes. A single shorter line has no key, because it may be a
// heading in all of an agent's summaries.
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

// openingSummaryKeys returns summary keys for the user's first words. The index has these keys if the words were the
// reply to a side request.
func openingSummaryKeys(sc Scope, req *wire.Request) []EchoKey {
	it, ok := firstUserItem(req)
	if !ok {
		return nil
	}
	return summaryKeys(sc, it.UserText, maxRequestSummaryKeys)
}

func firstWordsKey(sc Scope, req *wire.Request) (key EchoKey, ok bool) {
	words := OpeningHash(req)
	return echoKey(sc, "w:"+strconv.FormatUint(words, 16)+sc.Run, 0), words != 0
}
