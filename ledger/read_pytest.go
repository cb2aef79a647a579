package ledger

import (
	"regexp"
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
	pyRule2   = regexp.MustCompile(`^={3,} .* ={3,}$`)
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
		f := Failure{Tool: "pytest", Type: TypeTest, File: m[2], Subject: m[3], Error: m[4]}
		key := strings.ReplaceAll(m[3], "::", ".")
		if m[1] == "ERROR" && m[3] == "" {
			key = "ERROR collecting " + m[2]
		}
		for n := range sections {
			s := &sections[n]
			if s.name == key || strings.HasPrefix(s.name, "ERROR at ") && strings.HasSuffix(s.name, " of "+key) {
				f.Error, s.name = s.message, "" // of two with the same name the second is another file's
				break
			}
		}
		if f.Error == "" {
			f.Error = m[4]
		}
		if f.Error == "" {
			f.Error = "it cannot be collected"
		}
		f.Error = titled(f.Subject, f.Error)
		r.add(i, f)
	}
	if found {
		return
	}
	for _, s := range sections {
		r.add(s.at, Failure{Tool: "pytest", Type: TypeTest, File: s.file, Subject: s.name, Error: titled(s.name, s.message)})
	}
	r.pyShort()
}

// pySections reads the long form: a header, the code, what it said behind E, and where.
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
		if pyRule2.MatchString(text) {
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
	kept := out[:0]
	for _, s := range out {
		if s.name != "" && s.message != "" {
			kept = append(kept, s)
		}
	}
	return kept
}

// pyShort reads --tb=line.
func (r *reading) pyShort() {
	for i, text := range r.lines {
		if m := pyLine.FindStringSubmatch(text); m != nil {
			r.add(i, Failure{Tool: "pytest", Type: TypeTest, File: m[1], Error: m[2]})
		}
	}
}
