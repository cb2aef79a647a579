package request

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// Each pattern in kinds.tsv must match its example without the help of other patterns.
func TestEachPatternFindsItsExample(t *testing.T) {
	t.Parallel()
	kindTable, rows, err := readTable(kindsText)
	if err != nil {
		t.Fatal(err)
	}
	uses := map[int]int{}
	for _, r := range rows {
		uses[r.pattern.kindIndex]++
		alone := *kindTable
		alone.index([]row{r})
		s := search{table: &alone, stepsLeft: maxSteps}
		for sentence := range Sentences(r.example) {
			s.searchSentence(sentence)
		}
		if len(s.found) == 0 {
			t.Errorf("%s: pattern does not find the example %q", r.place, r.example)
		}
	}
	for i, k := range kindTable.kinds {
		if uses[i] == 0 {
			t.Errorf("kinds.tsv: kind %s has no pattern", k.Name)
		}
	}
}

func TestReadTableReportsFaults(t *testing.T) {
	t.Parallel()
	const head = "class\tcourtesy\tplease\nkind\tcommit\tThe user asks for a commit.\n"
	for table, want := range map[string]string{
		head + "commit\t^ commit":                     "kinds.tsv:3: want three fields, separated by tabs",
		head + "push\tpush\tpush it":                  "kinds.tsv:3: the kind push has no line",
		head + "commit\t@verb it\tpush it":            `kinds.tsv:3: the class "verb" has no line`,
		head + "commit\t{branch}\tmain":               "kinds.tsv:3: the shape {branch} is unknown",
		head + "commit\t* it\tcommit it":              `kinds.tsv:3: the pattern "* it" begins with a *`,
		head + "commit\tpu~ it\tpush it":              `kinds.tsv:3: the word "pu~" is too short or too long`,
		"kind\tcommit\tA commit.\ncommit\tcommit\tok": `the class "courtesy" has no line`,
	} {
		if _, _, err := readTable(table); err == nil || err.Error() != want {
			t.Errorf("table %q: err = %v, want %s", table, err, want)
		}
	}
}

type sentence struct{ set, kinds, text string }

// readSentences reads requests with their kinds. The sentences in the set "dev" were known when kinds.tsv was written.
// The 70 sentences in the set "held" were not known; 56 of them had the right kind in the first measurement.
func readSentences(t *testing.T) (out []sentence) {
	t.Helper()
	raw, err := os.ReadFile("testdata/requests.tsv")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if f := strings.Split(strings.TrimSpace(line), "\t"); len(f) == 3 && line[0] != '#' {
			out = append(out, sentence{f[0], f[1], f[2]})
		}
	}
	return out
}

func TestKindsFindsParaphrasedRequests(t *testing.T) {
	t.Parallel()
	all, found, others := map[string]int{}, map[string]int{}, map[string]int{}
	for _, s := range readSentences(t) {
		all[s.set]++
		got := Kinds(s.text)
		wanted := func(f KindMatch) bool { return slices.Contains(strings.Split(s.kinds, ","), string(f.Kind)) }
		if slices.ContainsFunc(got, wanted) {
			found[s.set]++
		} else {
			t.Logf("%s: Kinds(%q) = %v, want %s", s.set, s.text, got, s.kinds)
		}
		others[s.set] += len(slices.DeleteFunc(got, wanted))
	}
	for set, minimum := range map[string]int{"dev": 90, "held": 60} {
		t.Logf("%s: %d of %d found, %d other kinds", set, found[set], all[set], others[set])
		if all[set] < 40 || 100*found[set] < minimum*all[set] || 100*others[set] > 15*all[set] {
			t.Errorf("%s: %d of %d requests have the right kind and there are %d other kinds, want at least %d%% and at most 15%%", set, found[set], all[set], others[set], minimum)
		}
	}
}

func TestUnrelatedRequestsHaveNoKind(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("testdata/others.txt")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
	wrong := 0
	for _, line := range lines {
		if got := Kinds(line); len(got) > 0 {
			wrong++
			t.Logf("Kinds(%q) = %v", line, got)
		}
	}
	if len(lines) < 100 || 100*wrong > 4*len(lines) {
		t.Errorf("%d of %d unrelated requests have a kind, want at most 4%%", wrong, len(lines))
	}
}

func TestCodeQuotationsAndProhibitionsHaveNoKind(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"",
		"The commit broke the login page of two customers.",
		"Please do not commit anything.",
		"```\ngit commit -m x\n```\nExplain these lines.",
		"> please commit it\n\nHis answer was odd, or was it?",
		"<!-- Please run the tests\nbefore you report an issue. -->\nThe colour of the button differs.",
		`The label reads "please commit the changes", change the colour.`,
	} {
		if got := Kinds(text); len(got) > 0 {
			t.Errorf("Kinds(%q) = %v, want none", text, got)
		}
	}
}

// A statement that something is in use is not a request for a code search.
func TestOnlyQuestionsAboutUsesAreCodeSearches(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"The port 8080 is already in use", "The lock is already in use", "Make sure the port is not in use", "It is still used in production.",
		"The old key is referenced in the contract.", "The layout does not fit the pages elsewhere.",
	} {
		if got := Kinds(text); len(got) > 0 {
			t.Errorf("Kinds(%q) = %v, want none", text, got)
		}
	}
	for _, text := range []string{
		"where is parseConfig used?", "find all usages of X", "Is this flag still used?", "Please check whether the flag is used anywhere.",
		"Do we call it anywhere?", "Are these helpers referenced?",
	} {
		if got := Kinds(text); len(got) != 1 || got[0].Kind != "code-search" {
			t.Errorf("Kinds(%q) = %v, want code-search", text, got)
		}
	}
}

func TestKindsReturnsSentences(t *testing.T) {
	t.Parallel()
	got := Kinds("Add a flag in cmd/run.go. Then run the tests, and commit. Where is it read?")
	want := []KindMatch{{"verify", "Then run the tests, and commit."}, {"commit", "Then run the tests, and commit."}, {"code-search", "Where is it read?"}}
	if !slices.Equal(got, want) {
		t.Errorf("Kinds = %v, want %v", got, want)
	}
}

func TestTokensPerSentenceAreLimited(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"words":       strings.Repeat("every place that we ", 1<<18),
		"sentences":   strings.Repeat("where is it? ", 1<<18),
		"one word":    strings.Repeat("a", 1<<20),
		"punctuation": strings.Repeat("(-/.\"", 1<<18),
	} {
		s := search{table: kindTable(), stepsLeft: maxSteps}
		Kinds(text)
		for line := range Sentences(text[:min(len(text), maxText)]) {
			s.searchSentence(line)
		}
		if len(s.tokens) > maxTokens {
			t.Errorf("%s: got %d tokens for one sentence, want at most %d", name, len(s.tokens), maxTokens)
		}
	}
}

func TestNearestReturnsSimilarKind(t *testing.T) {
	t.Parallel()
	if got, known := Nearest("comit"); got != "commit" || known {
		t.Errorf("Nearest(comit) = kind %s, known %v, want kind commit, known false", got, known)
	}
	if _, known := Nearest("verify"); !known {
		t.Error("Nearest(verify): known = false, want true")
	}
}

func TestDocsListRequestKinds(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/LESSONS.md")
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for _, k := range AllKinds() {
		want.WriteString("| `" + string(k.Name) + "` | " + k.Meaning + " |\n")
	}
	_, rest, _ := strings.Cut(string(page), "<!-- request kinds -->\n| kind | meaning |\n|---|---|\n")
	if got, _, _ := strings.Cut(rest, "<!-- end of request kinds -->"); got != want.String() {
		t.Errorf("kinds table in docs/LESSONS.md differs from kinds.tsv; write:\n%s", want.String())
	}
}

func FuzzKinds(f *testing.F) {
	f.Add("please commit \"the work\" and push it to origin/main, then (when green) open a PR")
	f.Add("where's parseDate()?\n```\ncode\n```\n<!-- x -->")
	f.Fuzz(func(t *testing.T, text string) {
		for _, k := range Kinds(text) {
			if !strings.Contains(text, k.Sentence) {
				t.Errorf("kind %s: sentence %q is not in the text %q", k.Kind, k.Sentence, text)
			}
		}
	})
}
