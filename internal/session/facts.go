package session

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"precept/internal/sample"
	"precept/internal/wire"
)

const (
	maxTask          = 160     // characters
	maxTaskReadBytes = 8 << 10 // bytes read for the task; a secret that this limit cuts in two is far beyond maxTask
	maxFacts         = 64      // entries per list
	maxFactBytes     = 100     // a longer entry is left out
)

// changedPatterns is the value of Facts.Paths if the opt-out patterns changed during the session. No PathHash has this
// value.
const changedPatterns = "mixed"

// Facts summarise a session's stored exchanges, so that a list of sessions can be shown without reading exchanges. The
// recorder sets the facts from redacted exchanges that did not opt out. Rows from older releases have no facts.
type Facts struct {
	Turns      int       `json:"turns,omitempty"`  // turns that the facts describe; may be fewer than Thread.Turns
	Newest     int       `json:"newest,omitempty"` // newest described turn
	Task       string    `json:"task,omitempty"`   // user's first words
	Paths      string    `json:"paths,omitempty"`  // sample.OptOut.PathHash at the described turns, or changedPatterns
	Tools      []string  `json:"tools,omitempty"`  // names of called tools
	ErrorKinds []string  `json:"kinds,omitempty"`  // error kinds of failed tool results; upstream-STATUS, such as upstream-429, for a failed reply
	Tags       []string  `json:"tags,omitempty"`   // tags from the client
	Errors     int       `json:"errors,omitempty"` // failed tool results
	Output     int64     `json:"output,omitempty"` // output tokens
	Ended      time.Time `json:"ended,omitzero"`   // when the newest reply ended
}

// FirstWords returns the user's first words for Facts. It leaves out a harness's template, unless there is nothing
// else.
func FirstWords(req *wire.Request) string {
	it, ok := firstUserItem(req)
	if !ok {
		return ""
	}
	words := cmp.Or(req.Task(maxFirstItems), it.UserText)
	if len(words) <= maxTaskReadBytes {
		return strings.Clone(words)
	}
	n := maxTaskReadBytes
	for n > 0 && !utf8.RuneStart(words[n]) {
		n--
	}
	return strings.Clone(words[:n])
}

// Add adds a redacted exchange. The turn and the errors in a repeated request count only once.
func (f *Facts) Add(x *sample.Exchange) {
	switch {
	case f.Turns == 0:
		f.Paths = x.Facts.Paths
	case f.Paths != x.Facts.Paths:
		f.Paths = changedPatterns
	}
	isNewTurn := x.Turn > f.Newest
	if isNewTurn {
		f.Turns, f.Newest = f.Turns+1, x.Turn
	}
	if x.Turn <= 1 && f.Task == "" {
		f.Task = headline(x.Facts.Task)
	}
	for i := range x.Reply.Calls {
		f.Tools = addFact(f.Tools, x.Reply.Calls[i].Name)
	}
	for _, kind := range x.Facts.Kinds {
		f.ErrorKinds = addFact(f.ErrorKinds, kind)
	}
	if x.Status >= http.StatusBadRequest {
		f.ErrorKinds = addFact(f.ErrorKinds, fmt.Sprint("upstream-", x.Status))
	}
	for _, tag := range x.Facts.Tags {
		f.Tags = addFact(f.Tags, tag)
	}
	if x.ResultJudgements != nil && isNewTurn {
		f.Errors += len(x.ResultJudgements.Failed)
	}
	f.Output += int64(max(x.Reply.OutputTokens, 0))
	if ended := x.At.Add(time.Duration(x.LatencyMS * float64(time.Millisecond))).UTC(); ended.After(f.Ended) {
		f.Ended = ended
	}
}

// addFact returns the list with the name, if there is room. It never writes into the list's array, which a copy of the
// record may share.
func addFact(list []string, name string) []string {
	if name == "" || len(name) > maxFactBytes || len(list) >= maxFacts || slices.Contains(list, name) {
		return list
	}
	return append(slices.Clip(list), name)
}

func headline(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	n := 0
	for at := range text {
		if n == maxTask {
			return text[:at] + "…"
		}
		n++
	}
	return text
}
