package distill

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"precept/internal/redact"
)

// Summary is the result of one distiller run.
type Summary struct {
	Read           int            `json:"read"`      // sessions that the walk reached, except empty ones
	Unchanged      int            `json:"unchanged"` // sessions without new content
	Judged         int            `json:"judged"`
	Untroubled     int            `json:"untroubled,omitempty"` // sessions without trouble (hasTrouble), not shown to the judge
	Failed         int            `json:"failed"`               // sessions with an error
	SetAside       int            `json:"set_aside,omitempty"`  // sessions not judged again until the content changes
	Candidates     int            `json:"candidates"`           // lesson drafts
	Proposed       int            `json:"proposed"`
	Merged         int            `json:"merged"`  // drafts merged into an equal existing lesson as evidence
	Refused        map[string]int `json:"refused"` // refused drafts by reason
	Contradictions int            `json:"contradictions"`
	Opinions       int            `json:"opinions"`                // opinions about lessons
	RemovedCases   int            `json:"removed_cases,omitempty"` // cases that were removed, oldest first, to make room for new ones
	Tokens         int64          `json:"tokens,omitempty"`
	Cost           float64        `json:"cost,omitempty"`
	Stopped        string         `json:"stopped,omitempty"` // reason why the run ended early
	Busy           []string       `json:"busy,omitempty"`    // tenants that another process was reading
	Drafts         []Draft        `json:"drafts,omitempty"`
	MergedInto     []string       `json:"merged_into,omitempty"`
	Waiting        []Waiting      `json:"waiting,omitempty"` // lessons that the automatic gate leaves to an operator
	NotProposed    []NotProposed  `json:"not_proposed,omitempty"`
}

// NotProposed is a candidate lesson whose advice did not help in the captured sessions.
type NotProposed struct {
	Slug  string `json:"slug"`
	Title string `json:"title"`
	Comparison
}

func (s *Summary) addNotProposed(d *Draft) {
	if len(s.NotProposed) < maxDrafts {
		shown, _ := d.redactedCopy()
		s.NotProposed = append(s.NotProposed, NotProposed{d.Slug, shown.Title, *d.Comparison})
	}
}

const maxDrafts = 500 // maximum number of entries in each list of a Summary

func (s *Summary) add(d *Draft, state string) {
	s.Proposed++
	shown, _ := d.redactedCopy()
	shown.State = state
	s.addDraft(shown)
}

// refuse counts a refused draft. If the draft has a secret, the reason names only the kind of secret, because the
// reason may quote it.
func (s *Summary) refuse(d *Draft, code, why string) {
	shown, kinds := d.redactedCopy()
	if len(kinds) > 0 {
		why = "the draft contains " + strings.Join(kinds, ", ")
	}
	if code != "" {
		why = code + ": " + why
	}
	s.Refused[why]++
	shown.State, shown.Reason = "refused", why
	s.addDraft(shown)
}

func (s *Summary) addDraft(d Draft) {
	if len(s.Drafts) < maxDrafts {
		s.Drafts = append(s.Drafts, d)
	}
}

// redactedCopy returns a copy without the secrets and personal data that a model may have repeated from a session. A
// secret that is found in one text is replaced in all texts. kinds are the kinds of the replaced values.
func (d *Draft) redactedCopy() (shown Draft, kinds []string) {
	r := redact.New(true)
	shown = *d
	shown.mark = nil
	shown.Advice, shown.Keywords = slices.Clone(d.Advice), slices.Clone(d.Keywords)
	shown.Errors, shown.Tools = slices.Clone(d.Errors), slices.Clone(d.Tools)
	texts := []*string{&shown.Title, &shown.Applies, &shown.CounterExample}
	for _, list := range [][]string{shown.Advice, shown.Keywords, shown.Errors, shown.Tools} {
		for i := range list {
			texts = append(texts, &list[i])
		}
	}
	var pairs []string
	for _, t := range texts {
		clean := r.Text(*t)
		pairs = append(pairs, replacements(*t, clean)...)
		*t = clean
	}
	everywhere := strings.NewReplacer(pairs...)
	for _, t := range texts {
		*t = everywhere.Replace(*t)
	}
	return shown, slices.Sorted(maps.Keys(r.Counts()))
}

// placeholder matches the text that the redactor writes in place of a secret.
var placeholder = regexp.MustCompile(`\[REDACTED:[^\]]*\]`) //nolint:gochecknoglobals // immutable

// replacements returns the values replaced in text, each followed by the placeholder in clean.
func replacements(text, clean string) (pairs []string) {
	names, between := placeholder.FindAllString(clean, -1), placeholder.Split(clean, -1)
	text = strings.TrimPrefix(text, between[0])
	for i, name := range names {
		end := strings.Index(text, between[i+1])
		if i == len(names)-1 {
			end = len(text) - len(between[i+1])
		}
		if end < 0 {
			return pairs
		}
		if end >= 4 { // shorter values may occur in other words
			pairs = append(pairs, text[:end], name)
		}
		text = text[end+len(between[i+1]):]
	}
	return pairs
}

func redactText(text string) string { return redact.New(true).Text(text) }

// judgeError is an error that may quote a judge's answer, so its Error method redacts the text.
type judgeError struct{ err error }

func (e *judgeError) Error() string { return redactText(e.err.Error()) }
func (e *judgeError) Unwrap() error { return e.err }

func (s *Summary) addWaiting(slug, why string) {
	pos := slices.IndexFunc(s.Waiting, func(o Waiting) bool { return o.Slug == slug })
	switch {
	case pos >= 0:
		s.Waiting[pos].Reason = why
	case len(s.Waiting) < maxDrafts:
		s.Waiting = append(s.Waiting, Waiting{slug, why})
	}
}

func (s *Summary) removeWaiting(slug string) {
	s.Waiting = slices.DeleteFunc(s.Waiting, func(o Waiting) bool { return o.Slug == slug })
}
