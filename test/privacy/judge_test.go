package privacy

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"precept/test/harness"
)

// startJudge starts a judge (a model that rates sessions and drafts lessons) and returns its base URL. The judge
// repeats text in each draft, in each reason, and in every third rating as the outcome. If status is not 200, the judge
// always answers with an error that contains text at the end of the body.
func startJudge(t *testing.T, text string, status int) string {
	t.Helper()
	var asked atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Messages []struct{ Content string } `json:"messages"`
		}
		_ = json.NewDecoder(r.Body).Decode(&body)
		lesson := map[string]any{
			"title": "Use " + text + " for the build", "applies_when": "the build fails with " + text,
			"advice": []string{"Export " + text + " first."}, "keywords": []string{"the", text, "build"}, "error_patterns": []string{text + " refused"},
		}
		content, _ := json.Marshal(map[string]any{"lessons": []any{lesson}})
		switch n := asked.Add(1); {
		case status != http.StatusOK:
			http.Error(w, strings.Repeat("x", 300-len(text)/2)+" "+text, status) // an error message that quotes the first 300 bytes would contain half of the text
			return
		case strings.Contains(body.Messages[0].Content, "Say how it ended") && n%3 == 0:
			content, _ = json.Marshal(map[string]string{"outcome": text, "reason": text})
		case strings.Contains(body.Messages[0].Content, "Say how it ended"):
			content, _ = json.Marshal(map[string]string{"outcome": "failure", "reason": text})
		}
		harness.ReplyJSON(w, http.StatusOK, map[string]any{"choices": []any{map[string]any{"finish_reason": "stop", "message": map[string]string{"content": string(content)}}}})
	}))
	t.Cleanup(s.Close)
	return s.URL + "/v1"
}

func TestDistillRedactsJudgeAnswers(t *testing.T) {
	t.Parallel()
	for kind, canary := range canaries() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			dir, lessons := t.TempDir(), filepath.Join(t.TempDir(), "bank")
			importFile := filepath.Join(dir, "past.jsonl")
			var lines strings.Builder
			for i := range 8 {
				fmt.Fprintf(&lines, `{"id":"%d","messages":[{"role":"user","content":"Fix build %d"},{"role":"assistant","content":"Done."}]}`+"\n", i, i)
			}
			if err := os.WriteFile(importFile, []byte(lines.String()), 0o600); err != nil {
				t.Fatal(err)
			}
			harness.MustRun(t, "import", importFile, "--data-dir", dir)
			distill := []string{"distill", "--model", "m", "--data-dir", dir, "--lessons", lessons, "--judge"}
			answering, refusing := startJudge(t, canary, http.StatusOK), startJudge(t, canary, http.StatusForbidden)
			all := map[string]string{}
			hasDraft := false
			for i, judge := range [][]string{{refusing}, {answering, "--dry-run"}, {answering, "--dry-run", "--json"}, {answering}, {answering, "--json"}} {
				out, stderr, _ := harness.RunCommand(t, "", slices.Concat(distill, judge)...)
				all[fmt.Sprint("output of run ", i, judge)], all[fmt.Sprint("errors of run ", i, judge)] = out, stderr
				hasDraft = hasDraft || strings.Contains(out, "for the build")
			}
			maps.Copy(all, harness.Files(t, lessons))
			if !hasDraft {
				t.Errorf("precept distill: got outputs %v, want a draft in at least one", all)
			}
			normalized := map[string]string{}
			for name, text := range all {
				normalized[name] = strings.Join(strings.Fields(text), " ")
				normalized[name+", in lower case"] = strings.ToLower(normalized[name])
			}
			for _, form := range []string{canary, strings.Join(strings.Fields(canary), " ")} {
				for _, found := range findLeaks(normalized, map[string]string{kind: form, kind + " in lower case": strings.ToLower(form)}) {
					t.Errorf("leaked canary: %s", found)
				}
			}
		})
	}
}
