package privacy

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"precept/test/harness"
)

// newVaultModel starts a model. If the newest message contains "vault", the model calls the tool read with the path
// deploy/prod.vault.
func newVaultModel(t *testing.T) *httptest.Server {
	t.Helper()
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Messages []struct {
				Content string `json:"content"`
			} `json:"messages"`
		}
		raw, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(raw, &body)
		reply := harness.ChatReply("c", "Fine.")
		if n := len(body.Messages); n > 0 && strings.Contains(body.Messages[n-1].Content, "vault") {
			reply = toolCallReply("v", "read", `{"path":"deploy/prod.vault"}`)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, reply)
	}))
	t.Cleanup(model.Close)
	return model
}

// The second turn of a session opts out. Feedback on the session repeats the text of this turn, which must appear in no
// output.
func TestOptedOutTurnIsInNoOutput(t *testing.T) {
	const visibleText, hiddenText = "snapdragon-2236", "larkspur-1414"
	optOutHeader := http.Header{"Authorization": {"Bearer k-learned"}, "Precept-Learn": {"off"}}
	learnedKey, learnOffKey := http.Header{"Authorization": {"Bearer k-learned"}}, http.Header{"Authorization": {"Bearer k-learn-off"}}
	for name, tc := range map[string]struct {
		secondHeader  http.Header // second turn's headers
		secondMessage string      // second turn's user message
		laterPatterns string      // learning.opt_out_patterns after the session is stored
	}{
		"path":   {learnedKey, "Open the vault of " + hiddenText, "['*.vault']"},
		"header": {optOutHeader, "Describe " + hiddenText, "[]"},
		"key":    {learnOffKey, "Describe " + hiddenText, "[]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, config := t.TempDir(), filepath.Join(t.TempDir(), "precept.yaml")
			writeConfig := func(patterns string) {
				t.Helper()
				text := fmt.Sprintf("tenancy: keys\nkeys:\n  - {name: learned, key_sha256: %s, tenant: default, upstream_key: up}\n"+
					"  - {name: learn-off, key_sha256: %s, tenant: default, upstream_key: up, learn: \"off\"}\n"+
					"learning: {opt_out_patterns: %s}\nreward: {close_after: 2s}\nadmin: {tokens: [t]}\n", sha256Hex("k-learned"), sha256Hex("k-learn-off"), patterns)
				if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			writeConfig("[]")
			store := []string{"--data-dir", dir, "--config", config}
			serve := func() *harness.Process {
				return harness.Launch(t, dir, nil, append(store, "--upstream", newVaultModel(t).URL+"/v1")...).WaitUntilReady(dir)
			}
			p := serve()
			list := []any{}
			continueSession := func(header http.Header, messages ...any) {
				t.Helper()
				list = append(list, messages...)
				body, err := json.Marshal(map[string]any{"model": "m", "messages": list})
				if err != nil {
					t.Fatal(err)
				}
				header = header.Clone()
				header.Set("Precept-Session", "s")
				header.Set("Precept-Run", "r")
				answer := p.Chat(t, header, string(body))
				var completion struct{ Choices []struct{ Message any } }
				if err := json.Unmarshal([]byte(answer), &completion); err != nil || len(completion.Choices) == 0 {
					t.Fatalf("chat response %s: got error %v, want a choice", answer, err)
				}
				list = append(list, completion.Choices[0].Message)
			}
			user := func(text string) any { return map[string]any{"role": "user", "content": text} }
			continueSession(learnedKey, user("Begin with "+visibleText))
			continueSession(tc.secondHeader, user(tc.secondMessage))
			if name == "path" {
				continueSession(learnedKey, map[string]any{"role": "tool", "tool_call_id": "call_v", "content": "KEY=" + hiddenText})
			}
			continueSession(learnedKey, user("Thanks"))
			p.Eventually("the session in the store", func() bool {
				_, text := harness.Get(t, p.AdminURL+"/api/sessions/s", "t")
				return strings.Contains(text, visibleText) && strings.Contains(text, "Thanks")
			})
			for i, kind := range []string{"rejection", "correction"} {
				post := fmt.Sprintf(`{"id":"f%d","session_id":"s","source":"user","type":%q,"comment":"not %s","correction":%[3]q,"details":{"why":%[3]q}}`, i, kind, hiddenText)
				p.PostFeedback(t, learnedKey, post)
			}
			p.Eventually("a session sample", func() bool {
				_, text := harness.Get(t, p.AdminURL+"/api/samples", "t")
				return strings.Contains(text, "quality_score")
			})
			p.Stop()
			writeConfig(tc.laterPatterns)
			all := commandOutputs(t, store)
			p = serve()
			for _, path := range []string{
				"/sessions", "/sessions/s", "/runs/r", "/samples", "/sessions?tool=read", "/traffic", "/compare", "/breakdown", "/queue", "/",
				"/api/sessions", "/api/sessions/s", "/api/runs/r", "/api/samples", "/api/facets", "/api/traffic", "/api/sessions?words=" + hiddenText, "/api/sessions?error=" + hiddenText,
				"/api/export?format=mplp", "/api/export?format=openai", "/api/export?format=preference", "/api/export?format=experiment",
				"/api/export/sessions?format=jsonl", "/api/export/sessions?format=csv", "/api/export/sessions?format=transcripts",
			} {
				_, text := harness.Get(t, p.AdminURL+path, "t")
				all[path] = text
			}
			all["watch"] = harness.MustRun(t, append([]string{"watch", "s", "--once"}, store...)...)
			p.Stop()
			if found := harness.FilesWith(all, hiddenText); len(found) > 0 {
				for _, output := range found {
					at := strings.Index(all[output], hiddenText)
					t.Errorf("%s shows %q from the opted-out turn", output, all[output][max(0, at-150):min(len(all[output]), at+60)])
				}
			}
			for _, output := range []string{"/api/sessions/s", "/sessions/s", "/api/export?format=openai", "export openai", "watch", "/api/export/sessions?format=transcripts"} {
				if !strings.Contains(all[output], visibleText) {
					t.Errorf("%s lacks %q from the first turn", output, visibleText)
				}
			}
		})
	}
}
