package privacy

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"precept/test/harness"
)

// apis holds, for each API, the path, the beginning of a request with a system prompt and tools, and a reply.
var apis = map[string]struct{ path, requestStart, reply string }{ //nolint:gochecknoglobals // a table
	"chat": {
		"/v1/chat/completions",
		`{"model":"m","tools":[{"type":"function","function":{"name":"look_up","description":"Finds a periwinkle.","parameters":{"type":"object","properties":{"q":{"type":"string"}}}}}],"messages":[{"role":"system","content":%q},`,
		`{"id":"chatcmpl-1","object":"chat.completion","model":"m","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"An answer."}}]}`,
	},
	"messages": {
		"/v1/messages",
		`{"model":"m","max_tokens":9,"system":[{"type":"text","text":%q,"cache_control":{"type":"ephemeral"}}],"tools":[{"name":"look_up","description":"Finds a periwinkle.","input_schema":{"type":"object","properties":{"q":{"type":"string"}}}}],"messages":[`,
		`{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"An answer."}],"stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":2}}`,
	},
	"responses": {
		"/v1/responses",
		`{"model":"m","instructions":%q,"tools":[{"type":"function","name":"look_up","description":"Finds a periwinkle.","parameters":{"type":"object","properties":{"q":{"type":"string"}}}},{"type":"web_search"}],"input":[`,
		`{"id":"resp_1","object":"response","model":"m","status":"completed","output":[{"type":"message","id":"msg_1","role":"assistant","content":[{"type":"output_text","text":"An answer."}]}]}`,
	},
}

const promptText = "You are a gardener. Write to gardener@example.com about marigolds."

// sendTwoTurns sends a session with a system prompt and two turns.
func sendTwoTurns(t *testing.T, p *harness.Process, dialect, prompt string, header http.Header) {
	t.Helper()
	api := apis[dialect]
	h := header.Clone()
	if h == nil {
		h = http.Header{}
	}
	h.Set("Precept-Session", "s-"+dialect)
	for _, list := range []string{
		`{"role":"user","content":"Hello."}]`,
		`{"role":"user","content":"Hello."},{"role":"assistant","content":"An answer."},{"role":"user","content":"More."}]`,
	} {
		if code, answer := harness.Post(t, p.DataURL+api.path, h, fmt.Sprintf(api.requestStart, prompt)+list+"}"); code != http.StatusOK {
			t.Fatalf("%s: request: got status %d, body %s, want 200", dialect, code, answer)
		}
	}
}

// startModel starts a model with all three APIs and returns the URL.
func startModel(t *testing.T) string {
	t.Helper()
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		for _, api := range apis {
			if r.URL.Path == api.path {
				_, _ = io.WriteString(w, api.reply)
			}
		}
	}))
	t.Cleanup(model.Close)
	return model.URL
}

func TestPromptAndToolsAreStoredOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := harness.StartWithUpstream(t, dir, startModel(t))
	for dialect := range apis {
		sendTwoTurns(t, p, dialect, promptText, nil)
	}
	p.Eventually("two stored exchanges per dialect", func() bool { return harness.Doctor(t, dir).Stored == int64(2*len(apis)) })
	lines := strings.Split(strings.TrimSpace(harness.MustRun(t, "export", "--format", "openai", "--data-dir", dir)), "\n")
	if len(lines) != len(apis) {
		t.Fatalf("exported conversations: got %d, want %d", len(lines), len(apis))
	}
	for _, line := range lines {
		for _, want := range []string{
			`{"messages":[{"role":"system","content":"You are a gardener. Write to [REDACTED:email:1] about marigolds."},{"role":"user","content":"Hello."}`,
			`"tools":[{"type":"function","function":{"name":"look_up","description":"Finds a periwinkle.","parameters":{"type":"object","properties":{"q":{"type":"string"}}}}}]`,
		} {
			if strings.Count(line, want) != 1 || strings.Count(line, "gardener") != 1 {
				t.Errorf("exported line %s, want a line that contains %s once and \"gardener\" once", line, want)
			}
		}
	}
	for dialect := range apis {
		for _, path := range []string{"/api/sessions/s-" + dialect, "/sessions/s-" + dialect} {
			_, page := harness.Get(t, p.AdminURL+path, "token")
			if strings.Count(page, "about marigolds") < 1 || !strings.Contains(page, "Finds a periwinkle.") || strings.Contains(page, "gardener@") {
				t.Errorf("%s = %s, want the prompt and the tools, but without the email address", path, page)
			}
		}
		_, page := harness.Get(t, p.AdminURL+"/api/sessions/s-"+dialect, "token")
		if n, tools := strings.Count(page, "about marigolds"), strings.Count(page, "Finds a periwinkle."); n != 1 || tools != 1 {
			t.Errorf("%s session: got the prompt %d times and the tools %d times, want each of them once", dialect, n, tools)
		}
	}
	p.Stop()
	harness.MustRun(t, "forget", "--session", "s-messages", "--yes", "--data-dir", dir)
	if out := harness.MustRun(t, "export", "--format", "openai", "--data-dir", dir); strings.Count(out, "about marigolds") != len(apis)-1 {
		t.Errorf("export after forget = %s, want %d prompts", out, len(apis)-1)
	}
	if found := harness.FilesWith(harness.Files(t, dir), "gardener@example.com"); len(found) > 0 {
		t.Errorf("files with the address: got %v, want none", found)
	}
}

func TestOptedOutOrLongPromptIsNotStored(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		header http.Header
		flags  []string
		stored int64 // expected exchanges in the store
	}{
		"opted out":         {header: http.Header{"Precept-Learn": {"off"}}},
		"learning disabled": {flags: []string{"--learning-enabled=false"}},
		"too long":          {flags: []string{"--learning-capture-limit", "1KiB"}, stored: int64(2 * len(apis))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			p := harness.StartWithUpstream(t, dir, startModel(t), tc.flags...)
			text := promptText
			if tc.stored > 0 {
				text += strings.Repeat(" Be kind.", 200)
			}
			for dialect := range apis {
				sendTwoTurns(t, p, dialect, text, tc.header)
			}
			p.Eventually(fmt.Sprint(tc.stored, " stored exchanges"), func() bool { return harness.Doctor(t, dir).Stored == tc.stored })
			p.Stop()
			out := harness.MustRun(t, "export", "--format", "openai", "--data-dir", dir)
			if strings.Contains(out, "marigolds") || strings.Count(out, "More.") != int(tc.stored/2) {
				t.Errorf("export = %s, want no prompt and %d sessions", out, int(tc.stored/2))
			}
			if found := harness.FilesWith(harness.Files(t, dir), "marigolds"); len(found) > 0 {
				t.Errorf("files with the prompt: got %v, want none", found)
			}
		})
	}
}
