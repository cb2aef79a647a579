package ledger

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// Patterns for pytest's output.
//
//nolint:gochecknoglobals // immutable
var (
	// pyHeader matches the start of a test's section.
	pyHeader = regexp.MustCompile(`^_{3,} (.+?) _{3,}$`)
	// pyMessage matches an error message.
	pyMessage = regexp.MustCompile(`^E\s{1,}(\S.*)$`)
	// pyLocation matches an error's location, as in "shop/test_cart.py:12: ".
	pyLocation = regexp.MustCompile(`^(\S+\.py):\d+: `)
	// pySummary matches the short test summary.
	pySummary = regexp.MustCompile(`^(FAILED|ERROR) (\S+?\.py)(?:::(.+?))?(?: - (.*))?$`)
	// pyTbLine matches a failure with --tb=line.
	pyTbLine = regexp.MustCompile(`^(/\S+\.py):\d+: (\w+(?:Error|Exception|Warning|Exit|Interrupt)\b.*)$`)
	// pyEnd matches a banner after a section, such as "===== warnings summary =====".
	pyEnd = regexp.MustCompile(`^={3,} .* ={3,}$`)
)

// pySection is one test in pytest's failure report.
type pySection struct {
	name, file, message string
	at                  int // first line
}

// readPytest reads failed tests. The message comes from the test's section, and the file from the summary.
func (r *failureReader) readPytest() {
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
				message, s.name = s.message, "" // a later summary line with this name belongs to a different file
				break
			}
		}
		fallback := "the test failed"
		if m[3] == "" {
			fallback = "the test cannot be collected"
		}
		r.add(i, testFailure("pytest", m[2], m[3], cmp.Or(message, m[4], fallback)))
	}
	if found {
		return
	}
	for _, s := range sections {
		r.add(s.at, testFailure("pytest", s.file, s.name, s.message))
	}
	for i, text := range r.lines { // --tb=line has no sections
		if m := pyTbLine.FindStringSubmatch(text); m != nil {
			r.add(i, testFailure("pytest", m[1], "", m[2]))
		}
	}
}

// pySections returns the sections for failed tests. A section has a header, code, the message in lines that start with
// "E ", and the location. A banner of = signs ends the sections.
func (r *failureReader) pySections() []pySection {
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
			out = append(out, pySection{}) // for lines outside every section
			continue
		}
		if m := pyMessage.FindStringSubmatch(text); m != nil && s.message == "" {
			s.message = m[1]
		}
		if m := pyLocation.FindStringSubmatch(text); m != nil && s.file == "" {
			s.file = m[1]
		}
	}
	return slices.DeleteFunc(out, func(s pySection) bool { return s.name == "" || s.message == "" })
}

// Patterns for ruff's full output: a line with the rule, then a line with the location.
//
//nolint:gochecknoglobals // immutable
var (
	ruffHead      = regexp.MustCompile(`^([A-Z]{1,4}\d{2,5}|invalid-syntax|unformatted):? (?:\[\*\] )?(\S.*)$`)
	arrowLocation = regexp.MustCompile(`^\s*--> (.+?):(\d+)(?::(\d+))?$`)
)

func (r *failureReader) readRuff() {
	for i := 0; i+1 < len(r.lines); i++ {
		head := ruffHead.FindStringSubmatch(r.lines[i])
		if head == nil {
			continue
		}
		if at := arrowLocation.FindStringSubmatch(r.lines[i+1]); at != nil && !strings.HasSuffix(at[1], ".rs") {
			r.add(i, Failure{Tool: "ruff", Type: TypeLint, File: at[1], Subject: head[1], Error: head[1] + " " + head[2]})
		}
	}
}
