package ledger

import (
	"encoding/json"
	"regexp"
	"strings"
)

// Lines of eslint, jest and vitest.
//
//nolint:gochecknoglobals // immutable
var (
	eslintFile = regexp.MustCompile(`^\S.*\.(?:[cm]?[jt]sx?|vue|svelte|astro|json|md|html)$`)
	eslintLine = regexp.MustCompile(`^\s+\d+:\d+\s+(error|warning)\s+(.*?)(?:\s{2,}(\S+))?$`)
	jestFile   = regexp.MustCompile(`^\s*FAIL\s+(?:\S+\s+)?(\S+\.[cm]?[jt]sx?)(?: \([\d.]+ m?s\))?$`)
	jestTest   = regexp.MustCompile(`^  ● (.+)$`)
	jestValue  = regexp.MustCompile(`^(?:Expected|Received)[\w ]*: `)
	vitestFail = regexp.MustCompile(`^ ?(?:❯|×)? ?FAIL  (?:\|[^|]+\| )?(\S+\.[cm]?[jt]sx?)(?: > (.+)| \[ .+ \])$`)
)

// eslint reads the default form (a file, followed by its messages) and JSON. Warnings count only in
// an output without errors, because --max-warnings then failed the command.
func (r *reading) eslint() {
	found := map[string][]located{}
	file := ""
	for i, text := range r.lines {
		m := eslintLine.FindStringSubmatch(text)
		switch {
		case strings.HasPrefix(text, `[{"filePath":`):
			r.eslintJSON(i, text)
		case strings.TrimSpace(text) == "":
			file = ""
		case eslintFile.MatchString(text):
			file = text
		case m != nil && file != "":
			found[m[1]] = append(found[m[1]], located{lint("eslint", file, m[3], m[2]), i})
		}
	}
	problems := found["error"]
	if len(problems) == 0 {
		problems = found["warning"]
	}
	for _, c := range problems {
		r.add(c.at, c.failure)
	}
}

// eslintJSON adds the errors in the JSON report of eslint. Warnings are left out.
func (r *reading) eslintJSON(at int, text string) {
	var files []struct {
		FilePath string
		Messages []struct {
			RuleID   string `json:"ruleId"`
			Severity int
			Message  string
		}
	}
	_ = json.Unmarshal([]byte(text), &files) // a cut text names no file
	for _, f := range files {
		for _, m := range f.Messages {
			if m.Severity == 2 {
				r.add(at, lint("eslint", f.FilePath, m.RuleID, strings.TrimSuffix(m.Message, ".")))
			}
		}
	}
}

// jest reads the failed tests of each file. The summary at the end repeats the tests.
func (r *reading) jest() {
	file := ""
	for i, text := range r.lines {
		if m := jestFile.FindStringSubmatch(text); m != nil {
			file = m[1]
			continue
		}
		m := jestTest.FindStringSubmatch(text)
		if m == nil || file == "" {
			continue
		}
		r.add(i, failedTest("jest", file, m[1], r.jestMessage(i+1)))
	}
}

// jestMessage returns the first line of the message of a test, with expected and received value.
func (r *reading) jestMessage(from int) string {
	message := ""
	for _, text := range r.lines[from:] {
		t := strings.TrimSpace(text)
		switch {
		case jestTest.MatchString(text), jestFile.MatchString(text), strings.HasPrefix(t, "at "), strings.Contains(t, " | "):
			return message
		case message == "":
			message = t
		case jestValue.MatchString(t):
			message += ", " + t
		}
	}
	return message
}

// vitest reads the lines FAIL and the error below. Tests that failed with the same error share the
// error.
func (r *reading) vitest() {
	var waiting []located
	for i, text := range r.lines {
		if m := vitestFail.FindStringSubmatch(text); m != nil {
			waiting = append(waiting, located{Failure{Tool: "vitest", Type: TypeTest, File: m[1], Subject: m[2]}, i})
			continue
		}
		if strings.TrimSpace(text) == "" {
			continue
		}
		for _, w := range waiting {
			w.failure.Error = titled(w.failure.Subject, strings.TrimSpace(text))
			r.add(w.at, w.failure)
		}
		waiting = nil
	}
}
