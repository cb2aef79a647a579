package ledger

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// The lines of pytest.
//
//nolint:gochecknoglobals // immutable
var (
	pyHeader  = regexp.MustCompile(`^_{3,} (.+?) _{3,}$`)
	pySays    = regexp.MustCompile(`^E\s{1,}(\S.*)$`)
	pyWhere   = regexp.MustCompile(`^(\S+\.py):\d+: `)
	pySummary = regexp.MustCompile(`^(FAILED|ERROR) (\S+?\.py)(?:::(.+?))?(?: - (.*))?$`)
	pyLine    = regexp.MustCompile(`^(/\S+\.py):\d+: (\w+(?:Error|Exception|Warning|Exit|Interrupt)\b.*)$`)
	pyEnd     = regexp.MustCompile(`^={3,} .* ={3,}$`)
)

// pySection is what pytest says of one test.
type pySection struct {
	name, file, message string
	at                  int
}

// pytest joins what the sections say, whole, with the summary, which names the files and cuts the
// messages.
func (r *reading) pytest() {
	sections := r.pySections()
	found := false
	for i, text := range r.lines {
		m := pySummary.FindStringSubmatch(text)
		if m == nil || m[3] == "" && m[1] == "FAILED" {
			continue
		}
		found = true
		said := ""
		key := strings.ReplaceAll(m[3], "::", ".")
		if m[3] == "" {
			key = "ERROR collecting " + m[2]
		}
		for n := range sections {
			s := &sections[n]
			if s.name == key || strings.HasSuffix(s.name, " of "+key) {
				said, s.name = s.message, "" // of two with the same name the second is another file's
				break
			}
		}
		r.add(i, failedTest("pytest", m[2], m[3], cmp.Or(said, m[4], "it cannot be collected")))
	}
	if found {
		return
	}
	for _, s := range sections {
		r.add(s.at, failedTest("pytest", s.file, s.name, s.message))
	}
	for i, text := range r.lines { // --tb=line
		if m := pyLine.FindStringSubmatch(text); m != nil {
			r.add(i, failedTest("pytest", m[1], "", m[2]))
		}
	}
}

// pySections reads the long form of each test: a header, the code, the message behind E, and the
// file with its line. A rule of = ends the sections.
func (r *reading) pySections() []pySection {
	var out []pySection
	for i, text := range r.lines {
		if m := pyHeader.FindStringSubmatch(text); m != nil {
			out = append(out, pySection{name: m[1], at: i})
			continue
		}
		if len(out) == 0 {
			continue
		}
		s := &out[len(out)-1]
		if pyEnd.MatchString(text) {
			out = append(out, pySection{}) // what follows is no section's
			continue
		}
		if m := pySays.FindStringSubmatch(text); m != nil && s.message == "" {
			s.message = m[1]
		}
		if m := pyWhere.FindStringSubmatch(text); m != nil && s.file == "" {
			s.file = m[1]
		}
	}
	return slices.DeleteFunc(out, func(s pySection) bool { return s.name == "" || s.message == "" })
}
