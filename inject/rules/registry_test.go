package rules_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"precept/inject/rules"
	"precept/internal/wire"
)

func noon() time.Time { return time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC) }

func newQueuedSection(section, text string) rules.RegisteredSection {
	return rules.RegisteredSection{File: "CLAUDE.md", Section: section, Hash: rules.Hash(text), Text: rules.Normalize(text), CutProbability: 0.5, State: rules.Queued, Added: noon()}
}

func TestRegistryRoundTrip(t *testing.T) {
	path := rules.Path(filepath.Join(t.TempDir(), "lessons"))
	add := func(s rules.RegisteredSection) error {
		return rules.Update(path, func(list []rules.RegisteredSection) ([]rules.RegisteredSection, error) { return append(list, s), nil })
	}
	if r, err := rules.Read(path); err != nil || len(r.Sections) != 0 {
		t.Fatalf("Read(missing registry) = %+v, %v, want an empty registry and no error", r, err)
	}
	for _, s := range []rules.RegisteredSection{newQueuedSection("A", "## A\nx\n"), newQueuedSection("B", "## B\r\ny\r\n")} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := rules.Update(path, func([]rules.RegisteredSection) ([]rules.RegisteredSection, error) { return nil, errors.New("no") }); err == nil {
		t.Error("Update with a failing callback: got no error, want one")
	}
	r, err := rules.Read(path)
	if err != nil || len(r.Sections) != 2 || r.Sections[1].Slug() != "rule:CLAUDE.md#B" {
		t.Fatalf("Read = %+v, %v, want 2 sections, the second with the name B", r, err)
	}
	if i, ok := r.Index(r.Sections[1].Arm()); !ok || i != 1 || strings.Join(r.Lines(i), "|") != "## B|y" {
		t.Errorf("Index(section B) = %d, found %v, want 1, found true; Lines(1) = %q, want the 2 lines of section B", i, ok, r.Lines(1))
	}
}

func TestReadRefusesDamagedRegistry(t *testing.T) {
	for _, text := range []string{"{", `{"sections":[{"file":"F","section":"S","hash":"x","text":"y","share":0.5}]}`, `{"sections":[{"file":"F","section":"S","hash":"` + rules.Hash("y") + `","text":"y","share":1}]}`} {
		path := filepath.Join(t.TempDir(), rules.RegistryName)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if r, err := rules.Read(path); err == nil {
			t.Errorf("Read(%s) = %+v, want an error", text, r)
		}
	}
}

func TestAdvanceLimitsMeasuredSections(t *testing.T) {
	list := []rules.RegisteredSection{newQueuedSection("A", "a"), newQueuedSection("B", "b"), newQueuedSection("C", "c"), newQueuedSection("D", "d")}
	states := func() string {
		var out []string
		for i := range list {
			out = append(out, string(list[i].State))
		}
		return strings.Join(out, " ")
	}
	verdict := map[string]string{}
	advance := func() bool {
		return rules.Advance(list, 2, noon(), func(r *rules.RegisteredSection) string { return verdict[r.Section] })
	}
	if advance(); states() != "measuring measuring queued queued" {
		t.Fatalf("states at the start = %s, want \"measuring measuring queued queued\"", states())
	}
	if advance() {
		t.Error("Advance without a verdict = true, want false")
	}
	verdict["A"] = "no material effect"
	if advance(); states() != "finished measuring measuring queued" || list[0].Verdict != "no material effect" {
		t.Fatalf("states after a verdict = %s, want \"finished measuring measuring queued\"", states())
	}
}

// A session is measured only if the process has read the section before the session starts.
func TestSessionsBeforeMeasurementAreNotMeasured(t *testing.T) {
	s := newQueuedSection("A", "a")
	s.State, s.Began = rules.Measuring, noon()
	path := rules.Path(t.TempDir())
	if err := rules.Update(path, func([]rules.RegisteredSection) ([]rules.RegisteredSection, error) {
		return []rules.RegisteredSection{s}, nil
	}); err != nil {
		t.Fatal(err)
	}
	read := func() *rules.Registry {
		r, err := rules.Read(path)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := read()
	if before, from := r.IsMeasuring(0, noon().Add(-time.Second)), r.IsMeasuring(0, noon()); before || !from {
		t.Errorf("IsMeasuring = %v before Began and %v at Began, want false and true", before, from)
	}
	late := noon().Add(time.Minute) // the process first reads the section
	r = read().SetStarts(&rules.Registry{}, late)
	if before, from := r.IsMeasuring(0, late.Add(-time.Second)), r.IsMeasuring(0, late); before || !from {
		t.Errorf("IsMeasuring = %v before the first read and %v at the first read, want false and true", before, from)
	}
	if again := read().SetStarts(r, late.Add(time.Hour)); !again.IsMeasuring(0, late) {
		t.Error("IsMeasuring at the first read = false after a later read, want true")
	}
}

func TestHeadingsWithoutContentAreCut(t *testing.T) {
	for _, tc := range []struct{ name, text, cut, want string }{
		{"only bullet below a heading", "# Shop\nx\n\n## Style\n\n- Use tabs.\n\n## Test\ny", "- Use tabs.", "# Shop\nx\n\n## Test\ny"},
		{"one of two bullets", "## Style\n\n- Use tabs.\n- Wrap.\n", "- Use tabs.", "## Style\n\n- Wrap.\n"},
		{"only section below a heading", "# Shop\n\n## Style\nx\n", "## Style\nx", ""},
		{"underlined heading", "Style\n=====\n\n- Use tabs.\n\nTest\n====\ny", "- Use tabs.", "Test\n====\ny"},
		{"heading outside the frame", "# Rules\n<context name=\"userRules\">\n## A\n- x\n</context>\n", "- x", "# Rules\n<context name=\"userRules\">\n</context>\n"},
	} {
		places := rules.Locate(tc.text, rules.Lines(tc.cut))
		if len(places) != 1 {
			t.Fatalf("%s: Locate = %v, want one place", tc.name, places)
		}
		got := tc.text
		cut := make([]bool, len(tc.text))
		for _, s := range rules.AddEmptiedHeadings(tc.text, places) {
			for i := s.Start; i < s.End; i++ {
				cut[i] = true
			}
		}
		for i := len(tc.text) - 1; i >= 0; i-- {
			if cut[i] {
				got = got[:i] + got[i+1:]
			}
		}
		if got != tc.want {
			t.Errorf("%s: text without the cuts = %q, want %q", tc.name, got, tc.want)
		}
	}
}

func TestScanCountsFileAndSectionTokens(t *testing.T) {
	var s rules.Scan
	prompt := func(file string) []wire.Passage {
		return []wire.Passage{{Text: "Instructions from: /shop/AGENTS.md\n" + file}}
	}
	s.Add(prompt("## A\n"+strings.Repeat("x", 395)), 10, 10_000) // 400 bytes: 100 tokens
	s.Add(prompt("## A\n"+strings.Repeat("x", 395)), 20, 0)
	s.Add([]wire.Passage{{Text: "You are an agent."}}, 5, 500)
	files := s.Files()
	if len(files) != 1 {
		t.Fatalf("scan has %d files, want 1", len(files))
	}
	f := files[0]
	if f.Sessions != 2 || f.TokensPerRequest != 100 || f.TokensPerSession != 1500 || f.InputShare != 0.1 {
		t.Errorf("file = %+v, want 2 sessions, 100 tokens per request, 1500 tokens per session and input share 0.1", f)
	}
	if a := f.Sections[0]; a.Section != "A" || a.Sessions != 2 || a.TokensPerSession != 1500 || a.InputShare != 0.1 || a.Problem != "contains the whole file" {
		t.Errorf("section = %+v, want name A, 2 sessions, 1500 tokens per session, input share 0.1 and the problem \"contains the whole file\"", a)
	}
}

// The error about a damaged registry recommends replacing the registry with {}.
func TestEmptyObjectIsEmptyRegistry(t *testing.T) {
	t.Parallel()
	if _, err := rules.Parse("the registry in Redis", []byte("damaged")); err == nil || !strings.Contains(err.Error(), "write {} into it to measure nothing") {
		t.Errorf("Parse(damaged registry) error = %v, want it to recommend replacing the content with {}", err)
	}
	if r, err := rules.Parse("the registry in Redis", []byte("{}")); err != nil || len(r.Sections) != 0 {
		t.Errorf("Parse({}) = %+v, %v, want an empty registry and no error", r, err)
	}
}
