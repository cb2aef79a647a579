package ledger

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// Lines of pytest.
//
//nolint:gochecknoglobals // immutable
var (
	pyHeader  = regexp.MustCompile(`^_{3,} (.+?) _{3,}$`)
	pyMessage = regexp.MustCompile(`^E\s{1,}(\S.*)$`)
	pyPlaced  = regexp.MustCompile(`^(\S+\.py):\d+: `)
	pySummary = regexp.MustCompile(`^(FAILED|ERROR) (\S+?\.py)(?:::(.+?))?(?: - (.*))?$`)
	pyLine    = regexp.MustCompile(`^(/\S+\.py):\d+: (\w+(?:Error|Exception|Warning|Exit|Interrupt)\b.*)$`)
	pyEnd     = regexp.MustCompile(`^={3,} .* ={3,}$`)
)

// pySection is the report of pytest on one test.
type pySection struct {
	name, file, message string
	at                  int
}

// pytest joins the sections, which have whole messages, with the summary, which has the names of
// the files.
func (r *reading) pytest() {
	sections := r.pySections()
	found := false
	for i, text := range r.lines {
		m := pySummary.FindStringSubmatch(text)
		if m == nil || m[3] == "" && m[1] == "FAILED" {
			continue
		}
		found = true
		message := ""
		key := strings.ReplaceAll(m[3], "::", ".")
		if m[3] == "" {
			key = "ERROR collecting " + m[2]
		}
		for n := range sections {
			s := &sections[n]
			if s.name == key || strings.HasSuffix(s.name, " of "+key) {
				message, s.name = s.message, "" // a second section with the same name belongs to another file
				break
			}
		}
		r.add(i, failedTest("pytest", m[2], m[3], cmp.Or(message, m[4], "the test cannot be collected")))
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

// pySections reads the long form of each test: header, code, message after E, file with line. A
// rule of = ends the sections.
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
			out = append(out, pySection{}) // the lines below belong to no section
			continue
		}
		if m := pyMessage.FindStringSubmatch(text); m != nil && s.message == "" {
			s.message = m[1]
		}
		if m := pyPlaced.FindStringSubmatch(text); m != nil && s.file == "" {
			s.file = m[1]
		}
	}
	return slices.DeleteFunc(out, func(s pySection) bool { return s.name == "" || s.message == "" })
}

// Long form of ruff: the rule, and the place on the next line.
//
//nolint:gochecknoglobals // immutable
var (
	ruffHead = regexp.MustCompile(`^([A-Z]{1,4}\d{2,5}|invalid-syntax|unformatted):? (?:\[\*\] )?(\S.*)$`)
	arrow    = regexp.MustCompile(`^\s*--> (.+?):(\d+)(?::(\d+))?$`)
)

func (r *reading) ruff() {
	for i := 0; i+1 < len(r.lines); i++ {
		head := ruffHead.FindStringSubmatch(r.lines[i])
		if head == nil {
			continue
		}
		if at := arrow.FindStringSubmatch(r.lines[i+1]); at != nil && !strings.HasSuffix(at[1], ".rs") {
			r.add(i, Failure{Tool: "ruff", Type: TypeLint, File: at[1], Subject: head[1], Error: head[1] + " " + head[2]})
		}
	}
}
