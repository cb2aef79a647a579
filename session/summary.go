package session

import (
	"hash/fnv"
	"io"
	"strconv"
	"strings"

	"precept/wire"
)

// An agent whose history grows too long asks for a summary, in a side request, and begins a list with it in the user's
// place. When it keeps no call and no answer beside it, the lines of the summary are all that ties the new list to the
// session.
const (
	summaryLine  = 48 // bytes that a line must have to be nobody else's
	summaryGiven = 64 // lines noted of a side request's reply: its thoughts may come first
	summaryAsked = 8  // and looked for in a request
	summaryBytes = 64 << 10
)

// summaryKeys are the keys of the first long lines of a text.
func summaryKeys(sc Scope, text string, most int) []EchoKey {
	var keys []EchoKey
	for line := range strings.Lines(text[:min(len(text), summaryBytes)]) {
		if line = strings.TrimSpace(line); len(line) < summaryLine {
			continue
		}
		h := fnv.New64a()
		_, _ = io.WriteString(h, line)
		keys = append(keys, echoKey(sc, "s:"+strconv.FormatUint(h.Sum64(), 16), 0))
		if len(keys) == most {
			break
		}
	}
	return keys
}

// begunBy are the keys under which a side request's reply may stand in a request as the first words of the user.
func begunBy(sc Scope, req *wire.Request) []EchoKey {
	if req.Delta {
		return nil
	}
	for i := range min(req.Len(), maxFront) {
		if it := req.Item(i); it.Role == wire.RoleUser && it.Words != "" {
			return summaryKeys(sc, it.Words, summaryAsked)
		}
	}
	return nil
}
