package distill_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"precept/distill"
	"precept/inject/bank"
	"precept/internal/sample"
	"precept/store/sqlite"
)

// The other tests keep sessions and lessons in memory. This test stores them on disk, and compares the results.
func TestRunOnDiskEqualsRunInMemory(t *testing.T) {
	onDisk := func(f *fixture) *fixture {
		s, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "p.db"), Now: f.clock})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		f.store = s
		f.openBank(bank.Directory(filepath.Join(t.TempDir(), "lessons")), bank.Limits{})
		return f
	}
	runAll := func(f *fixture) (results []any) {
		writeLesson(t, f, "old-advice")
		answer := validJudge("success", goodLesson)
		for i, part := range []string{"first", "second"} {
			for _, tenant := range []string{"default", "red"} {
				f.addTenantSession(tenant, part+tenant, nil, user("Find hotels, "+part), call("find_hotels", `{"stars":"four"}`, `{"error":"stars must be an integer: four"}`), call("find_hotels", `{"stars":"4"}`, `{"hotels":[]}`))
			}
			f.addTenantSession("default", "continued", []sample.Lesson{{Slug: "old-advice", State: "injected"}}, []event{user("Run the benchmark."), agent("It ran."), user("Again, " + part)}[:2+i]...)
			results = append(results, string(raw(f.runDistiller())), string(raw(f.runDistiller())))
			s := &scriptedJudge{answer: func(_ int, a judgeRequest) (int, map[string]string, string) { return 200, nil, answer(a) }}
			for range 2 {
				sum, _, err := runJudge(t, f, s, func(o *distill.Options) { o.Select.Tenant = "default" })
				opinions, failed := distill.ReadOpinions(t.Context(), f.store, "default")
				results = append(results, string(raw(sum)), err, opinions, failed, len(s.requests))
			}
		}
		for _, l := range f.lessons() {
			results = append(results, l.Slug, l.Scope, l.Evidence)
		}
		return results
	}
	got, want := runAll(onDisk(newFixture(t))), runAll(newFixture(t))
	for i := range max(len(got), len(want)) {
		checkEqual(t, fmt.Sprint("result ", i, " on disk (got) and in memory (want)"), got[i], want[i])
	}
}
