package learning

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"precept/bandit/report"
	"precept/inject/bank/banktest"
	"precept/store/storetest"
	"precept/test/harness"
)

// outcomeQuestion is a part of the prompt that asks the judge (a model) for the outcome of a session.
const outcomeQuestion = "Say how it ended"

// startJudge starts a judge. The judge always has the opinion "ignored" on the lesson look-first. It also has an
// opinion on a lesson that was never injected.
func startJudge(t *testing.T) string {
	t.Helper()
	judge := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		content := `{"lessons":[]}`
		switch text := string(data); {
		case strings.Contains(text, "what became of it in this run"):
			content = `{"lessons":[{"slug":"look-first","opinion":"ignored"},{"slug":"never-shown","opinion":"followed"}]}`
		case strings.Contains(text, outcomeQuestion):
			content = `{"outcome":"success","reason":"r"}`
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"choices":[{"finish_reason":"stop","message":{"content":%q}}],"usage":{"prompt_tokens":9,"completion_tokens":1}}`, content)
	}))
	t.Cleanup(judge.Close)
	return judge.URL + "/v1"
}

func TestReportCountsJudgeOpinions(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"sqlite", "redis"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			dir, lessons := t.TempDir(), t.TempDir()
			storeFlags := []string{"--data-dir", dir, "--lessons", lessons}
			args := []string{"--upstream", startRefusingModel(t), "--lessons", lessons, "--bandit-epsilon", "0", "--bandit-control", "0", "--bandit-objective", "all"}
			if kind == "redis" {
				redisFlags := []string{"--store-url", "redis://" + storetest.StartRedis(t).Addr + "/0"}
				storeFlags, args = append(storeFlags, redisFlags...), append(args, redisFlags...)
			}
			banktest.WriteLesson(t, lessons, "look-first", "targets")
			p := harness.Launch(t, dir, []string{"PRECEPT_ADMIN_TOKEN=opinions"}, args...).WaitUntilReady(dir)
			sendTurn := func(name, text string) {
				t.Helper()
				if status, answer := harness.Post(t, p.DataURL+"/v1/chat/completions", http.Header{"Precept-Session": {name}}, `{"model":"m","messages":[`+text+`]}`); status != http.StatusOK {
					t.Fatalf("chat request: got status %d, answer %s, want 200", status, answer)
				}
			}
			const first = `{"role":"user","content":"build the targets"}`
			sendTurn("one", first)
			sendTurn("two", `{"role":"user","content":"build all of the targets"}`)
			distillArgs := append([]string{"distill", "--judge", startJudge(t), "--model", "m", "--json"}, storeFlags...)
			judged := 0
			distil := func() {
				t.Helper()
				out, stderr, code := harness.RunCommand(t, "", distillArgs...)
				var sum struct{ Judged int }
				if code != 0 || json.Unmarshal([]byte(out), &sum) != nil {
					t.Fatalf("precept distill: got exit code %d, output %s, standard error %s, want 0 and JSON", code, out, stderr)
				}
				judged += sum.Judged
			}
			p.Eventually("both sessions to be judged", func() bool { distil(); return judged == 2 })
			const twoIgnored = `"opinions":{"followed":0,"ignored":2,"irrelevant":0,"contradicted":0}`
			if _, body := harness.Get(t, p.AdminURL+"/api/report", "opinions"); !strings.Contains(body, twoIgnored) {
				t.Errorf("/api/report = %q, want it to contain %q", body, twoIgnored)
			}
			sendTurn("one", first+`,{"role":"assistant","content":"ok"},{"role":"user","content":"go on"}`)
			p.Eventually("the continued session to be judged again", func() bool { distil(); return judged == 3 })
			p.Stop()
			out, stderr, code := harness.RunCommand(t, "", append([]string{"report", "--json"}, storeFlags...)...)
			var r report.Report
			if code != 0 || json.Unmarshal([]byte(out), &r) != nil || len(r.Lessons) != 1 {
				t.Fatalf("precept report: got exit code %d, output %s, standard error %s, want 0 and JSON with one lesson", code, out, stderr)
			}
			if o := r.Lessons[0].Opinions; o == nil || *o != (report.Opinions{Ignored: 2}) { // the session that was judged twice counts once
				t.Errorf("opinions in precept report: got %+v, want %+v", o, (report.Opinions{Ignored: 2}))
			}
			_, shown, code := harness.RunCommand(t, "", append([]string{"lessons", "show", "look-first"}, storeFlags...)...)
			if want := "the judge's opinion, not a measurement: followed 0, ignored 2, irrelevant 0, contradicted 0"; code != 0 || !strings.Contains(shown, want) {
				t.Errorf("lessons show: got exit code %d, standard error %q, want 0 and a text with %q", code, shown, want)
			}
			banktest.WriteLesson(t, lessons, "look-first", "goals") // a new text of the lesson, on which there is no opinion yet
			if _, shown, _ = harness.RunCommand(t, "", append([]string{"lessons", "show", "look-first"}, storeFlags...)...); strings.Contains(shown, "opinion") {
				t.Errorf(`lessons show after the lesson is edited = %q, want no "opinion"`, shown)
			}
		})
	}
}
