package trial_test

import (
	"testing"

	"pgregory.net/rapid"

	"precept/bandit/trial"
)

// A Table stores counters in packed bytes. The test adds each value to a plain array as well, and compares the two.
func TestTableMatchesPlainArrays(t *testing.T) {
	type key struct {
		group uint8
		at    int64
	}
	rapid.Check(t, func(t *rapid.T) {
		var table trial.Table
		arrays := map[key][trial.Columns]int64{}
		for range rapid.IntRange(0, 8).Draw(t, "changes") {
			before, copied := table, string(table)
			table.Change(func(row func(uint8, int64) *[trial.Columns]int64) {
				for range rapid.IntRange(0, 8).Draw(t, "additions") {
					k := key{rapid.Uint8Range(0, 3).Draw(t, "group"), rapid.OneOf(rapid.Int64Range(-2, 2), rapid.Int64()).Draw(t, "at")}
					i, v := rapid.IntRange(0, trial.Columns-1).Draw(t, "column"), rapid.OneOf(rapid.Int64Range(-2, 2), rapid.Int64()).Draw(t, "value")
					row(k.group, k.at)[i] += v
					want := arrays[k]
					want[i] += v
					arrays[k] = want
				}
			})
			if string(before) != copied {
				t.Fatalf("copy of the table after a change of the original = %q, want the unchanged %q", before, copied)
			}
		}
		var r, last trial.Row
		n := 0
		for it := table; it.Next(&r); n++ {
			if n > 0 && (r.Group < last.Group || r.Group == last.Group && r.At <= last.At) {
				t.Fatalf("row %d.%d is after row %d.%d, want rows in order", r.Group, r.At, last.Group, last.At)
			}
			if want, found := arrays[key{r.Group, r.At}]; !found || r.Values != want {
				t.Fatalf("row %d.%d = %v, want %v", r.Group, r.At, r.Values, want)
			}
			last = r
		}
		if n != len(arrays) {
			t.Fatalf("rows = %d, want %d", n, len(arrays))
		}
		for k, want := range arrays {
			if got := table.Row(k.group, k.at); got != want {
				t.Fatalf("Row(%d, %d) = %v, want %v", k.group, k.at, got, want)
			}
		}
		if got := table.Row(9, 0); got != [trial.Columns]int64{} {
			t.Fatalf("Row(9, 0) = %v, want zeros, because the table has no such row", got)
		}
	})
}
