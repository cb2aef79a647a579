package detect

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestEachKindPatternMatchesItsExample(t *testing.T) {
	t.Parallel()
	table, rows, err := readKinds(kindsText)
	if err != nil {
		t.Fatal(err)
	}
	uses := map[int]int{}
	for _, r := range rows {
		uses[r.kind]++
		single := &kindTable{kinds: table.kinds, byWord: map[string][]kindPattern{}}
		if err := single.addPatterns([]kindRow{r}); err != nil {
			t.Errorf("%s: index pattern %q: %v", r.position, r.pattern, err)
			continue
		}
		if got := matchingKinds(single, r.example); !got[r.kind] {
			t.Errorf("%s: pattern %q does not match the example %q", r.position, r.pattern, r.example)
		}
		want := table.kinds[r.kind].Name
		if got := Kinds(r.example, kindJudgement(r.example)); !table.kinds[r.kind].isFallback && !slices.Contains(got, want) {
			t.Errorf("%s: %q: got kinds %v, want %s", r.position, r.example, got, want)
		}
	}
	for i, k := range table.kinds {
		if uses[i] == 0 {
			t.Errorf("kinds.tsv: kind %s has no pattern", k.Name)
		}
	}
}

// kindJudgement judges a result as if the API had flagged it as an error. Every other outcome, such as a refusal,
// becomes an error by the rule "flag".
func kindJudgement(text string) Judgement {
	j := Classify("bash", `{"command":"make"}`, text, 1)
	if j.Outcome != Error {
		j = Judgement{Outcome: Error, Rule: "flag"}
	}
	return j
}

func matchingKinds(table *kindTable, text string) []bool {
	s := kindScan{table: table, found: make([]bool, len(table.kinds)), stepsLeft: maxKindSteps}
	s.searchResult(text, kindJudgement(text).Code)
	return s.found
}

type paraphrase struct {
	set  string // "dev" if the table's authors knew the text, "held" if not
	kind Kind
	text string
}

func readParaphrases(t *testing.T) (out []paraphrase) {
	t.Helper()
	raw, err := os.ReadFile("testdata/kind_paraphrases.tsv")
	if err != nil {
		t.Fatal(err)
	}
	unescape := strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\t`, "\t")
	for line := range strings.Lines(string(raw)) {
		if f := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", 3); len(f) == 3 && line[0] != '#' {
			out = append(out, paraphrase{f[0], Kind(f[1]), unescape.Replace(f[2])})
		}
	}
	return out
}

func TestParaphrasedFailuresHaveTheirKind(t *testing.T) {
	t.Parallel()
	all, found := map[string]int{}, map[string]int{}
	for _, p := range readParaphrases(t) {
		all[p.set]++
		got := Kinds(p.text, kindJudgement(p.text))
		if slices.Contains(got, p.kind) {
			found[p.set]++
			continue
		}
		t.Logf("%s: %q: got kinds %v, want %s", p.set, p.text, got, p.kind)
	}
	for set, n := range all {
		t.Logf("set %s: %d of %d texts have the expected kind", set, found[set], n)
		if found[set]*10 < n*9 || n < 40 {
			t.Errorf("set %s: %d of %d texts have the expected kind, want at least 90%% of at least 40 texts", set, found[set], n)
		}
	}
}

// A line that names a cause, such as a missing header file, must not also get the general kind for "No such file".
func TestKindsOmitsGeneralKinds(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]Kind{
		"env: 'node': No such file or directory":                             {"command-not-found"},
		"git@host: Permission denied (publickey).":                           {"auth"},
		"Error: ENOSPC: System limit for number of file watchers reached":    {"too-many-files"},
		"a.c:1:10: fatal error: openssl/ssl.h: No such file or directory":    {"module-missing", "compile-error"},
		"Traceback (most recent call last):\n  File \"a.py\"\nKeyError: 'x'": {"index-out-of-range"},
		"Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'x'":              {"node-module-missing", "module-missing"},
		"bash: ./build.sh: No such file or directory\nExit code: 127":        {"path-missing"},
		"/bin/bash: /home/x.sh: /bin/bash^M: bad interpreter: No such file":  {"line-endings"},
	} {
		if got := Kinds(text, kindJudgement(text)); !slices.Equal(got, want) {
			t.Errorf("%q: got kinds %v, want %v", text, got, want)
		}
	}
}

// A success can mention an error, and a failure can quote an error from a different command.
func TestQuotedErrorsHaveNoKind(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ tool, args, text string }{
		{"bash", `{"command":"grep -rn found docs"}`, "docs/a.md:12:bash: foo: command not found\ndocs/b.md:3:Permission denied"},
		{"read_file", `{"path":"a.md"}`, "# Errors\n\nA shell prints `bash: foo: command not found` for an unknown command.\nNo such file or directory means ENOENT."},
		{"bash", `{"command":"go test ./..."}`, "ok  \texample/x\t0.3s\nExit code: 0"},
		{"bash", `{"command":"git log --oneline"}`, "3f2a9c1 fix: connection refused on start\n4f2a9c1 retry when a request timed out"},
		{"bash", `{"command":"cat run.sh"}`, "if ! command -v rg; then echo 'rg: command not found'; fi"},
	} {
		if got := Kinds(tc.text, Classify(tc.tool, tc.args, tc.text, 0)); len(got) > 0 {
			t.Errorf("%q: got kinds %v, want none", tc.text, got)
		}
	}
	for _, text := range []string{
		"Exit code 1\n12:bash: foo: command not found\n13\techo no such file or directory",
		"Exit code 1\ndiff --git a/x b/x\n+bash: foo: command not found",
		"Exit code 1\ndocs/a.md:12:bash: foo: command not found",
		"Exit code 1\nsrc/a.go:3:\treturn errors.New(\"connection refused\")",
	} {
		if got := Kinds(text, kindJudgement(text)); len(got) > 0 {
			t.Errorf("%q: got kinds %v, want none", text, got)
		}
	}
}

func TestKindsSearchIsLimited(t *testing.T) {
	t.Parallel()
	failed := Judgement{Outcome: Error, Rule: "flag"}
	filler := strings.Repeat("all is well here\n", 100_000)
	if got := Kinds("sh: 1: ps: not found\n"+filler, failed); !slices.Equal(got, []Kind{"command-not-found"}) {
		t.Errorf("error at the start: got kinds %v, want command-not-found", got)
	}
	if got := Kinds(filler+"sh: 1: ps: not found", failed); !slices.Equal(got, []Kind{"command-not-found"}) {
		t.Errorf("error at the end: got kinds %v, want command-not-found", got)
	}
	if got := Kinds(filler+"sh: 1: ps: not found\n"+filler, failed); len(got) > 0 {
		t.Errorf("error in the middle of a long result: got kinds %v, want none", got)
	}
	s := kindScan{table: compiledKinds(), found: make([]bool, len(compiledKinds().kinds)), stepsLeft: 1000}
	s.searchText(strings.Repeat("error found not file command found error not: ", 10_000))
	if s.stepsLeft > 1000 || s.stepsLeft < -2000 {
		t.Errorf("search limited to 1,000 steps: stepsLeft = %d at the end, want -2,000 to 1,000", s.stepsLeft)
	}
}

// Each line and each field, even an empty field, uses up one step of the search. After the last step, only the exit
// code can still give a kind.
func TestKindsSearchCountsLinesAndFields(t *testing.T) {
	t.Parallel()
	var empty, numbers strings.Builder
	for i := range 60_000 {
		fmt.Fprintf(&empty, `"a%d":"",`, i)
		fmt.Fprintf(&numbers, `"a%d":7,`, i)
	}
	for name, text := range map[string]string{
		"empty fields": `{` + empty.String() + `"z":1}`,
		"numbers":      `{` + numbers.String() + `"z":1}`,
		"short lines":  strings.Repeat("x\n", 1<<20),
	} {
		s := kindScan{table: compiledKinds(), found: make([]bool, len(compiledKinds().kinds)), stepsLeft: 100_000}
		s.searchText(text)
		if s.stepsLeft > 0 || s.stepsLeft < -2*lineSteps {
			t.Errorf("%s: search limited to 100,000 steps: stepsLeft = %d at the end, want %d to 0", name, s.stepsLeft, -2*lineSteps)
		}
		if got := Kinds(text, Judgement{Outcome: Error, Code: 127}); len(got) == 0 {
			t.Errorf("%s with exit code 127: got no kinds, want at least one", name)
		}
	}
}

func TestNearestKindCorrectsSpelling(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]Kind{"comand-not-found": "command-not-found", "timeouts": "timeout", "port-used": "port-in-use"} {
		if got, known := NearestKind(name); got != want || known {
			t.Errorf("NearestKind(%q) = kind %q, known %t, want kind %q, known false", name, got, known, want)
		}
	}
	if _, known := NearestKind("timeout"); !known {
		t.Error(`NearestKind("timeout"): known = false, want true`)
	}
}

func TestLessonsPageListsAllKinds(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/LESSONS.md")
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for _, k := range KnownKinds() {
		want.WriteString("| `" + string(k.Name) + "` | " + k.Meaning)
		if k.Broader != "" {
			want.WriteString(" Also has the kind `" + string(k.Broader) + "`.")
		}
		want.WriteString(" |\n")
	}
	_, rest, _ := strings.Cut(string(page), "<!-- kinds -->\n| kind | meaning |\n|---|---|\n")
	if got, _, _ := strings.Cut(rest, "<!-- end of kinds -->"); got != want.String() {
		t.Errorf("docs/LESSONS.md: the kinds table differs from kinds.tsv, want:\n%s", want.String())
	}
}

func BenchmarkKinds(b *testing.B) {
	text := strings.Repeat("step 3 of 9: compiling package example/x for the target, please wait\n", 400) + "sh: 1: ps: not found"
	failed := Judgement{Outcome: Error, Rule: "flag"}
	for b.Loop() {
		Kinds(text, failed)
	}
}
