package distill

import (
	_ "embed"
	"path"
	"slices"
	"sync"

	"precept/detect"
)

//go:embed known.json
var knownText []byte

// knownFailure is a public program's failure with a known fix. Its lesson is proposed only after the failure has
// occurred in sessions.
type knownFailure struct {
	Slug     string   `json:"slug"`
	Title    string   `json:"title"`
	Advice   []string `json:"advice"`
	Programs []string `json:"programs"` // empty means every tool
	AllOf    []string `json:"holds"`    // words in lower case; the error contains all of them
	OneOf    []string `json:"one_of"`   // words in lower case; the error contains at least one; only for a failure with Edit
	Edit     string   `json:"edit"`     // editReread or editContext; "" if no edit was refused
	Triggers []string `json:"fires_on"`
	Kinds    []string `json:"kinds"` // error kinds that are also triggers; together with Edit, they identify the failure
}

// Specific failures precede general ones, because the first match is used.
//
//nolint:gochecknoglobals // immutable, read at first use
var knownFailures = sync.OnceValue(func() []knownFailure { return decodeEmbedded[[]knownFailure](knownText) })

func findKnownFailure(slug string) *knownFailure {
	list := knownFailures()
	if pos := slices.IndexFunc(list, func(k knownFailure) bool { return k.Slug == slug }); slug != "" && pos >= 0 {
		return &list[pos]
	}
	return nil
}

// recogniseFailure returns the known failure in a step's result, or nil.
func recogniseFailure(s *step) *knownFailure {
	low, program := s.errorText(), ""
	if s.shell != nil {
		program = path.Base(s.shell.mainCommand().program)
	}
	var byKind *knownFailure
	for _, k := range knownFailures() {
		if p := k.Programs; len(p) > 0 && !slices.Contains(p, program) {
			continue
		}
		hasWording := slices.ContainsFunc(k.OneOf, func(w string) bool { return containsPhrase(low, w, false) })
		switch {
		case k.Edit != "" && !s.edits():
			continue
		case k.Edit != "" && !hasWording: // without known words, the error kind must match
			if byKind == nil && hasFailureKind(s, &k) {
				byKind = &k
			}
			continue
		}
		if !slices.ContainsFunc(k.AllOf, func(w string) bool { return !containsPhrase(low, w, false) }) {
			return &k
		}
	}
	return byKind
}

func hasFailureKind(s *step, k *knownFailure) bool {
	return slices.ContainsFunc(k.Kinds, func(kind string) bool { return slices.Contains(s.errorKinds(), detect.Kind(kind)) })
}

// maxFailureOutput is the size in bytes up to which hasKnownFailure reads a result. A longer result may be a file about
// a failure.
const maxFailureOutput = 2000

// hasKnownFailure reports whether a result that looks like a success contains a known failure's message. Some agents
// hide the exit status, so a failed command looks successful.
func hasKnownFailure(s *step) bool {
	if s.judgement.Outcome != detect.OK || s.judgement.ReportsSuccess || len(s.text) > maxFailureOutput {
		return false
	}
	k := recogniseFailure(s)
	return k != nil && len(k.Programs) > 0
}
