package distill

import (
	_ "embed"
	"path"
	"slices"
	"strings"
	"sync"

	"precept/detect"
)

//go:embed known.json
var knownText []byte

// known is a failure that is the same everywhere: its words belong to a public program, and what
// helps is known. A lesson comes of it only where sessions met the failure; what is known here is
// how to say it.
type known struct {
	Slug     string   `json:"slug"`
	Title    string   `json:"title"`
	Advice   []string `json:"advice"`
	Programs []string `json:"programs"` // the commands whose failure it is; empty: any tool's
	Holds    []string `json:"holds"`    // words that the error holds, all of them, in lower case
	Fires    []string `json:"fires_on"` // what the lesson fires on
}

// knownFailures lists them; the first that fits is taken, so what is special stands before what is
// general.
//
//nolint:gochecknoglobals // immutable, read at first use
var knownFailures = sync.OnceValue(func() []known { return embedded[[]known](knownText) })

// recognise finds the known failure that a step's result tells of.
func recognise(s *step) *known {
	low, program := strings.ToLower(s.text), ""
	if s.shell != nil {
		program = path.Base(s.shell.main().program)
	}
	for _, k := range knownFailures() {
		if p := k.Programs; len(p) > 0 && !slices.Contains(p, program) {
			continue
		}
		if !slices.ContainsFunc(k.Holds, func(w string) bool { return !holds(low, w, false) }) {
			return &k
		}
	}
	return nil
}

// maxSilent bounds the results that are taken for a failure although nothing but their words says
// so, in bytes. Longer ones may be files that speak of one.
const maxSilent = 2000

// saysSo says whether a result in which nobody saw a failure has the words of one: programs end
// with a message, and not every harness tells how they ended. Only what a program itself says
// counts.
func saysSo(s *step) bool {
	if s.verdict.Outcome != detect.OK || s.verdict.Sure || len(s.text) > maxSilent {
		return false
	}
	k := recognise(s)
	return k != nil && len(k.Programs) > 0
}
