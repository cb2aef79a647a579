package ledger

import (
	"encoding/json"
	"regexp"
	"strings"
)

// Patterns for lines from eslint, jest and vitest.
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

// readESLint reads the default and the JSON output. In the default output, the messages follow a line with the file
// name. If there are no errors, the command failed because of --max-warnings, so the warnings are reported.
func (r *failureReader) readESLint() {
	found := map[string][]locatedFailure{}
	file := ""
	for i, text := range r.lines {
		m := eslintLine.FindStringSubmatch(text)
		switch {
		case strings.HasPrefix(text, `[{"filePath":`):
			r.readESLintJSON(i, text)
		case strings.TrimSpace(text) == "":
			file = ""
		case eslintFile.MatchString(text):
			file = text
		case m != nil && file != "":
			found[m[1]] = append(found[m[1]], locatedFailure{lintFailure("eslint", file, m[3], m[2]), i})
		}
	}
	problems := found["error"]
	if len(problems) == 0 {
		problems = found["warning"]
	}
	for _, c := range problems {
		r.add(c.line, c.failure)
	}
}

// readESLintJSON reads the errors in JSON output, and skips the warnings.
func (r *failureReader) readESLintJSON(at int, text string) {
	var files []struct {
		FilePath string
		Messages []struct {
			RuleID   string `json:"ruleId"`
			Severity int
			Message  string
		}
	}
	_ = json.Unmarshal([]byte(text), &files) // files stays empty if the text is truncated
	for _, f := range files {
		for _, m := range f.Messages {
			if m.Severity == 2 {
				r.add(at, lintFailure("eslint", f.FilePath, m.RuleID, strings.TrimSuffix(m.Message, ".")))
			}
		}
	}
}

// readJest reads failed tests. The summary repeats them, and distinctFailures drops the repetitions.
func (r *failureReader) readJest() {
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
		r.add(i, testFailure("jest", file, m[1], r.jestMessage(i+1)))
	}
}

// jestMessage returns a message's first line, followed by the expected and the received value.
func (r *failureReader) jestMessage(from int) string {
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

// readVitest reads failed tests. All FAIL lines directly before an error belong to this error.
func (r *failureReader) readVitest() {
	var waiting []locatedFailure
	for i, text := range r.lines {
		if m := vitestFail.FindStringSubmatch(text); m != nil {
			waiting = append(waiting, locatedFailure{Failure{Tool: "vitest", Type: TypeTest, File: m[1], Subject: m[2]}, i})
			continue
		}
		if strings.TrimSpace(text) == "" {
			continue
		}
		for _, w := range waiting {
			w.failure.Error = withSubject(w.failure.Subject, strings.TrimSpace(text))
			r.add(w.line, w.failure)
		}
		waiting = nil
	}
}
