package detect

import (
	"slices"
	"testing"
)

// Each pattern covers its example, without the other patterns of its kind.
func TestEachPatternOfAKindCoversItsExample(t *testing.T) {
	t.Parallel()
	table, rows, err := readKinds(kindsText)
	if err != nil {
		t.Fatal(err)
	}
	uses := map[int]int{}
	for _, r := range rows {
		uses[r.kind]++
		alone := &kindTable{kinds: table.kinds, byWord: map[string][]kindPattern{}}
		if err := alone.index([]kindRow{r}); err != nil {
			t.Errorf("%v", err)
			continue
		}
		if got := kindsIn(alone, r.example); !got[r.kind] {
			t.Errorf("%s: the pattern %q does not cover %q", r.line, r.pattern, r.example)
		}
		want := table.kinds[r.kind].Name
		if got := Kinds(r.example, kindJudgement(r.example)); !table.kinds[r.kind].rest && !slices.Contains(got, want) {
			t.Errorf("%s: %q has the kinds %v, want %s", r.line, r.example, got, want)
		}
	}
	for i, k := range table.kinds {
		if uses[i] == 0 {
			t.Errorf("kinds.tsv: the kind %s has no pattern", k.Name)
		}
	}
}

// kindJudgement returns the judgement of an example, which is an error by its flag at least.
func kindJudgement(text string) Judgement {
	j := Classify("bash", `{"command":"make"}`, text, 1)
	if j.Outcome != Error {
		j = Judgement{Outcome: Error, Rule: "flag"}
	}
	return j
}

// kindsIn searches an example by some patterns.
func kindsIn(table *kindTable, text string) []bool {
	s := kindScan{table: table, found: make([]bool, len(table.kinds)), steps: maxKindSteps}
	s.result(text, kindJudgement(text).Code)
	return s.found
}
