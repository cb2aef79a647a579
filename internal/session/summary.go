package session

import (
	"strconv"
	"strings"

	"precept/internal/wire"
)

// An agent whose history grows too long asks for a summary, in a side request, and begins a list
// with it in the user's place. When it keeps no call and no answer beside it, the lines of the
// summary are all that ties the new list to the session.
const (
	summaryLine  = 48 // bytes that a line must have so that it and the next one are nobody else's,
	summaryAlone = 80 // and to be so without the next one
	summaryGiven = 64 // keys noted of a side request's reply: its thoughts may come first
	summaryAsked = 8  // and looked for in a request
	summaryBytes = 64 << 10
)

// summaryKeys returns the keys of the first long lines of a text: of very long lines, and of each
// long line together with the line before. A heading that all summaries of an agent share
// identifies no conversation.
func summaryKeys(sc Scope, text string, most int) []EchoKey {
	var keys []EchoKey
	add := func(lines ...string) {
		if len(keys) == most {
			return
		}
		h := noText
		for _, l := range lines {
			h = addText(addText(h, l), "\n")
		}
		keys = append(keys, echoKey(sc, "s:"+strconv.FormatUint(h, 16), 0))
	}
	before := ""
	for line := range strings.Lines(text[:min(len(text), summaryBytes)]) {
		if line = strings.TrimSpace(line); len(line) < summaryLine {
			continue
		}
		if len(line) >= summaryAlone {
			add(line)
		}
		if before != "" {
			add(before, line)
		}
		if before = line; len(keys) == most {
			break
		}
	}
	return keys
}

// summaryShown returns the keys under which the reply to a side request may come back as the first
// words of the user.
func summaryShown(sc Scope, req *wire.Request) []EchoKey {
	it, ok := opening(req)
	if !ok {
		return nil
	}
	return summaryKeys(sc, it.Words, summaryAsked)
}

// beginning returns the key of the first words of a session. ok is false where the request does not
// show them.
func beginning(sc Scope, req *wire.Request) (key EchoKey, ok bool) {
	words := firstWords(req)
	return echoKey(sc, "w:"+strconv.FormatUint(words, 16)+sc.Run, 0), words != 0
}
