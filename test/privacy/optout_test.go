package privacy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"precept/internal/session"
	"precept/test/harness"
)

func toolCallReply(id, tool, args string) string {
	return fmt.Sprintf(`{"id":%q,"object":"chat.completion","model":"m","choices":[{"index":0,"finish_reason":"tool_calls","message":{"role":"assistant","content":null,"tool_calls":[{"id":"call_%s","type":"function","function":{"name":%q,"arguments":%q}}]}}]}`, id, id, tool, args)
}

func sha256Hex(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

func TestOptedOutSessionIsNotStored(t *testing.T) {
	const canary = "periwinkle-2718"
	dir := t.TempDir()
	file := filepath.Join(t.TempDir(), "precept.yaml")
	reply := toolCallReply("chatcmpl-"+canary, "read", `{"path":"`+canary+`/prod.env"}`)
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(150 * time.Millisecond) // so that precept stores the beginning of the turn before the reply with the opted-out path arrives
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, reply)
	}))
	t.Cleanup(model.Close)
	text := fmt.Sprintf(`
tenancy: keys
keys:
  - {name: learn-off, key_sha256: %s, tenant: tenant-learn-off, upstream_key: up, learn: "off"}
  - {name: private, key_sha256: %s, tenant: private-1, upstream_key: up}
  - {name: learned, key_sha256: %s, tenant: tenant-learned, upstream_key: up}
learning:
  opt_out_tenants: ["private-*"]
  opt_out_agents: ["nightly-*"]
reward: {close_after: 300ms}
`, sha256Hex("k-learn-off"), sha256Hex("k-private"), sha256Hex("k-learned"))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := harness.Launch(t, dir, []string{"PRECEPT_ADMIN_TOKEN=t"}, "--config", file, "--upstream", model.URL+"/v1", "--log-level", "debug").WaitUntilReady(dir)
	optOuts := map[string]http.Header{
		"header Precept-Learn": {"Authorization": {"Bearer k-learned"}, "Precept-Learn": {"off"}},
		"key with learn off":   {"Authorization": {"Bearer k-learn-off"}},
		"opted-out tenant":     {"Authorization": {"Bearer k-private"}},
		"opted-out agent":      {"Authorization": {"Bearer k-learned"}, "Precept-Agent": {"nightly-7"}},
		"path in the reply":    {"Authorization": {"Bearer k-learned"}},
		"header in capitals":   {"Authorization": {"Bearer k-learned"}, "Precept-Learn": {"OFF"}},
	}
	names := []string{}
	for optOut, header := range optOuts {
		name := canary + "-" + strings.ReplaceAll(optOut, " ", "-")
		names = append(names, name)
		header = header.Clone()
		header.Set("Precept-Session", name)
		body := `{"model":"m","messages":[{"role":"system","content":"Be kind."},{"role":"user","content":"Look for ` + canary + `."}],"tools":[{"type":"function","function":{"name":"read","parameters":{}}}]}`
		if answer := p.Chat(t, header, body); !strings.Contains(answer, canary) {
			t.Fatalf("%s: answer = %s, want the text %q", optOut, answer, canary)
		}
		if code, answer := harness.Post(t, p.DataURL+"/v1/feedback", header, `{"session_id":"`+name+`","source":"user","type":"approval","comment":"of `+canary+`"}`); code != 202 || !strings.Contains(answer, `"ignored"`) {
			t.Errorf("%s: feedback: got status %d, body %s, want status 202 and a body with ignored", optOut, code, answer)
		}
	}
	waitForMetric := func(want string) {
		t.Helper()
		p.Eventually(want, func() bool {
			_, text := harness.Get(t, p.AdminURL+"/metrics", "t")
			return strings.Contains(text, want)
		})
	}
	waitForMetric(fmt.Sprintf(`precept_dropped_total{reason="opt_out"} %d`, len(optOuts)))
	checkNoTrace := func(when string) {
		t.Helper()
		all := harness.Files(t, dir)
		all["the log"] = p.Log.String()
		for _, trace := range append([]string{canary, "tenant-learn-off", "tenant-learned", "private-1", "nightly", sha256Hex(canary)}, names...) {
			if found := harness.FilesWith(all, trace); len(found) > 0 {
				t.Errorf("%s: places with %q from an opted-out session: got %v, want none", when, trace, found)
			}
		}
		for _, tenant := range []string{"tenant-learn-off", "private-1", "tenant-learned"} {
			for _, name := range names {
				id := session.NamedID(tenant, session.NamespaceSession, name)
				if found := append(harness.FilesWith(all, string(id[:])), harness.FilesWith(all, id.String())...); len(found) > 0 {
					t.Errorf("%s: places with the hash of session %s: got %v, want none", when, name, found)
				}
			}
		}
		if counts := doctorCounts(t, dir); counts != "[0 0 0 0 0]" {
			t.Errorf("%s: numbers of sessions, exchanges, samples, feedback and parked feedback: got %s, want only zeros", when, counts)
		}
	}
	p.Eventually("the turn with an opted-out path in the reply to be removed", func() bool { return len(harness.FilesWith(harness.Files(t, dir), canary)) == 0 })
	checkNoTrace("while precept runs")
	if code, answer := harness.Post(t, p.DataURL+"/v1/feedback", http.Header{"Authorization": {"Bearer k-learned"}, "Precept-Learn": {"off"}}, `{"session_id":"other","source":"user","type":"approval","comment":"`+canary+`"}`); code != 202 || !strings.Contains(answer, `"ignored"`) {
		t.Errorf("feedback on an unknown session: got status %d, body %s, want status 202 and a body with ignored", code, answer)
	}
	p.Signal(syscall.SIGTERM)
	if code := p.ExitCode(); code != 0 {
		t.Fatalf("precept serve: got exit code %d, want 0\n%s", code, p.Log.String())
	}
	checkNoTrace("after shutdown")

	p = harness.Launch(t, dir, []string{"PRECEPT_ADMIN_TOKEN=t"}, "--config", file, "--upstream", model.URL+"/v1", "--learning-enabled=false").WaitUntilReady(dir)
	p.Chat(t, optOuts["path in the reply"], `{"model":"m","messages":[{"role":"user","content":"`+canary+`"}]}`)
	waitForMetric(`precept_dropped_total{reason="opt_out"} 1`)
	checkNoTrace("with learning.enabled: false")
	p.Signal(syscall.SIGTERM)
	p.ExitCode()

	// Without opt-out patterns, a turn with the same path is stored.
	p = harness.Launch(t, dir, []string{"PRECEPT_ADMIN_TOKEN=t"}, "--config", file, "--upstream", model.URL+"/v1", "--learning-opt-out-patterns", "").WaitUntilReady(dir)
	p.Chat(t, optOuts["path in the reply"], `{"model":"m","messages":[{"role":"user","content":"`+canary+`"}]}`)
	p.Eventually("the exchange in the files", func() bool { return len(harness.FilesWith(harness.Files(t, dir), canary)) > 0 })
}

func doctorCounts(t *testing.T, dir string) string {
	t.Helper()
	out, stderr, code := harness.RunCommand(t, "", "doctor", "--json", "--data-dir", dir)
	var d harness.Diagnosis
	if err := json.Unmarshal([]byte(out), &d); err != nil || code != 0 {
		t.Fatalf("doctor --json: got exit code %d, output %s (error %v), standard error %s, want 0 and JSON", code, out, err, stderr)
	}
	var n []int64
	for _, name := range []string{"sessions", "exchanges", "samples", "feedback", "parked"} {
		n = append(n, d.Store[name])
	}
	return fmt.Sprint(n)
}

// In the second of four turns, the model reads an opted-out file. The third turn contains the content of the file, and
// a reply that quotes the content.
func TestMidSessionOptOutHidesOnlyOptedOutTurns(t *testing.T) {
	const canary = "verbena-1414"
	dir := t.TempDir()
	model := harness.RepeatingServer(t,
		harness.ChatReply("chatcmpl-1", "first-answer"), toolCallReply("chatcmpl-2", "read", `{"path":"C:\\app\\.ENV"}`),
		harness.ChatReply("chatcmpl-3", "It says "+canary), harness.ChatReply("chatcmpl-4", "last-answer"))
	p := harness.Launch(t, dir, []string{"PRECEPT_ADMIN_TOKEN=t"}, "--upstream", model.URL+"/v1", "--reward-close-after", "1s").WaitUntilReady(dir)
	list := `{"role":"user","content":"first-question"}`
	ask := func() {
		t.Helper()
		body := `{"model":"m","messages":[` + list + `],"tools":[{"type":"function","function":{"name":"read","parameters":{}}}]}`
		p.Chat(t, nil, body)
	}
	ask()
	list += `,{"role":"assistant","content":"first-answer"},{"role":"user","content":"Now read ` + canary + `-question"}`
	ask()
	list += `,{"role":"assistant","content":null,"tool_calls":[{"id":"call_chatcmpl-2","type":"function","function":{"name":"read","arguments":"{\"path\":\"C:\\\\app\\\\.ENV\"}"}}]},{"role":"tool","tool_call_id":"call_chatcmpl-2","content":"KEY=` + canary + `"}`
	ask()
	list += `,{"role":"assistant","content":"It says ` + canary + `"},{"role":"user","content":"last-question"}`
	ask()
	p.Eventually("two dropped and two stored exchanges", func() bool {
		_, text := harness.Get(t, p.AdminURL+"/metrics", "t")
		return strings.Contains(text, `precept_dropped_total{reason="opt_out"} 2`) && strings.Contains(text, `precept_samples_total{outcome="exchange_stored"} 2`)
	})
	p.Signal(syscall.SIGTERM)
	if code := p.ExitCode(); code != 0 {
		t.Fatalf("precept serve: got exit code %d, want 0\n%s", code, p.Log.String())
	}
	all := harness.Files(t, dir)
	for _, trace := range []string{canary, ".ENV", ".env", "call_chatcmpl-2"} {
		if found := harness.FilesWith(all, trace); len(found) > 0 {
			t.Errorf("files with the opted-out text %q: got %v, want none", trace, found)
		}
	}
	texts, err := json.Marshal(harness.ExchangesInFile(t, dir)) // the database file has only the compressed form
	if err != nil {
		t.Fatal(err)
	}
	for _, kept := range []string{"first-question", "first-answer", "last-question", "last-answer"} {
		if !strings.Contains(string(texts), kept) {
			t.Errorf("text %q from a turn without an opt-out: got it nowhere in the store, want it stored", kept)
		}
	}
}
