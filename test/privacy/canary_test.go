package privacy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"precept/test/harness"

	"github.com/parquet-go/parquet-go"

	"precept/cmd/precept/lake"
	"precept/internal/sample"
	"precept/internal/session"
	"precept/store/sqlite"
	"precept/store/storetest"
)

// canaries returns one invented secret or personal detail of each kind. It joins the values from parts, so that
// scanners do not report secrets in this repository.
func canaries() map[string]string {
	const hex32, mixed36 = "0a1b2c3d4e5f60718293a4b5c6d7e8f9", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
	join := func(parts ...string) string { return strings.Join(parts, "") }
	return map[string]string{
		"openai": join("sk-", "proj-", mixed36), "anthropic": join("sk-", "ant-api03-", mixed36), "aws": join("AKIA", "IOSFODNN7ABCDEFG"),
		"github": join("ghp", "_", mixed36), "gitlab": join("glpat", "-", mixed36[:20]), "slack": join("xox", "b-123456789012-123456789012-", mixed36[:24]),
		"stripe": join("sk", "_live_", mixed36[:24]), "google": join("AI", "za", mixed36[:35]), "npm": join("npm", "_", mixed36),
		"pypi": join("pypi", "-AgEIcHlwaS5vcmc", mixed36, mixed36), "huggingface": join("hf", "_", mixed36[:34]),
		"sendgrid": join("SG", ".", mixed36[:22], ".", mixed36, mixed36[:7]), "twilio": join("AC", hex32),
		"jwt":         join("eyJhbGciOiJIUzI1NiJ9.", "eyJzdWIiOiIxMjM0NTY3ODkwIn0.", mixed36),
		"private key": join("-----BEGIN ", "PRIVATE KEY-----\n", mixed36, mixed36[:28], "\n", mixed36, "\n-----END ", "PRIVATE KEY-----"),
		"email":       "wilhelmina.x@postal-canary.example.org", "phone": "+1 (415) 555-0142", "card": "4111 1111 1111 1111",
		"iban": "DE89 3704 0044 0532 0130 00", "ssn": "078-05-1120", "ip": "203.0.113.77",
	}
}

// findLeaks returns each place that contains a canary, or at least the first two thirds of one, together with the
// surrounding bytes.
func findLeaks(texts map[string]string, values map[string]string) (found []string) {
	for kind, v := range values {
		for _, part := range []string{v, v[:len(v)*2/3]} {
			for _, form := range []string{part, strings.ReplaceAll(part, "\n", `\n`), strings.ReplaceAll(part, "\n", `\\n`)} {
				for _, name := range harness.FilesWith(texts, form) {
					start := strings.Index(texts[name], form)
					found = append(found, fmt.Sprintf("%s in %s: %q", kind, name, texts[name][max(0, start-60):min(len(texts[name]), start+90)]))
				}
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// newStreamingModel starts a model that streams text as content and as a tool call argument, in pieces of seven bytes.
// If the request contains "hang up", the model instead streams the first three quarters of secret and then closes the
// connection.
func newStreamingModel(t *testing.T, text, secret string) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		event := func(v any) {
			b, _ := json.Marshal(v)
			_, _ = fmt.Fprintf(w, "data: %s\n\n", b)
			_ = http.NewResponseController(w).Flush()
		}
		delta := func(d any) map[string]any {
			return map[string]any{"id": "chatcmpl-1", "choices": []any{map[string]any{"index": 0, "delta": d}}}
		}
		streamText := func(text string) {
			for piece := range slices.Chunk([]byte(text), 7) {
				event(delta(map[string]any{"content": string(piece)}))
			}
		}
		if strings.Contains(string(body), "hang up") {
			streamText("Use " + secret[:len(secret)*3/4])
			panic(http.ErrAbortHandler)
		}
		streamText(text)
		args, _ := json.Marshal(map[string]string{"note": text})
		for i, piece := range slices.Collect(slices.Chunk(args, 7)) {
			call := map[string]any{"index": 0, "function": map[string]any{"arguments": string(piece)}}
			if i == 0 {
				call["id"], call["type"] = "call_1", "function"
				call["function"].(map[string]any)["name"] = "note"
			}
			event(delta(map[string]any{"tool_calls": []any{call}}))
		}
		event(map[string]any{"id": "chatcmpl-1", "choices": []any{map[string]any{"index": 0, "delta": map[string]any{}, "finish_reason": "tool_calls"}}})
		_, _ = io.WriteString(w, "data: [DONE]\n\n")
	}))
	t.Cleanup(s.Close)
	return s
}

func TestNoCanaryIsStoredOrExported(t *testing.T) {
	values := canaries()
	var sentences []string
	for _, kind := range slices.Sorted(maps.Keys(values)) {
		sentences = append(sentences, kind+" is "+values[kind]+" here.")
	}
	text := strings.Join(sentences, "\n")
	model := newStreamingModel(t, text, values["openai"])
	dir := t.TempDir()
	p := harness.Launch(t, dir, []string{"PRECEPT_ADMIN_TOKEN=t"}, "--upstream", model.URL+"/v1", "--reward-close-after", "1s", "--log-level", "debug").WaitUntilReady(dir)

	inner, _ := json.Marshal(map[string]string{"body": text})
	args, _ := json.Marshal(map[string]string{"json": string(inner)}) // the arguments are JSON in a JSON string in a JSON string
	escaped := strings.NewReplacer("@", `\u0040`, "-", `\u002d`, "1", `\u0031`).Replace(strings.ReplaceAll(text, "\n", `\n`))
	history := []any{
		map[string]any{"role": "system", "content": text},
		map[string]any{"role": "user", "content": "Take note of this: " + text},
		map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{map[string]any{"id": "call_0-" + values["openai"], "type": "function", "function": map[string]any{"name": "note", "arguments": string(args)}}}},
		map[string]any{"role": "tool", "tool_call_id": "call_0-" + values["openai"], "content": "error: " + text},
	}
	messages, err := json.Marshal(history)
	if err != nil {
		t.Fatal(err)
	}
	template := strings.TrimSuffix(string(messages), "]") + `,{"role":"user","content":"` + escaped + ` %s"}]`
	name := "run of " + values["email"] + " with " + values["github"]
	header := http.Header{
		"Precept-Session": {name}, "Precept-Agent": {"agent-" + values["email"]}, "Precept-Tags": {values["gitlab"]}, "User-Agent": {"tool/" + values["npm"]},
		"Authorization": {"Bearer " + values["openai"]}, "X-Api-Key": {values["anthropic"]}, "Api-Key": {values["stripe"]}, "Cookie": {"id=" + values["jwt"]},
	}
	for _, ending := range []string{"go on", "hang up"} {
		body := fmt.Sprintf(`{"model":"ft:base:`+values["email"]+`:`+values["openai"]+`","stream":true,"messages":%s,"tools":[{"type":"function","function":{"name":"note","parameters":{}}}]}`, fmt.Sprintf(template, ending))
		code, answer := harness.Post(t, p.DataURL+"/p/agent=a,"+values["openai"]+"=1/v1/chat/completions?key="+values["google"], header, body)
		if code != 200 || !strings.Contains(strings.ReplaceAll(answer, "\n", ""), "data: ") {
			t.Fatalf("chat request %q: got status %d, body %s, want 200 and a stream", ending, code, answer)
		}
	}
	for i, kind := range []string{"correction", "rejection"} {
		b, err := json.Marshal(map[string]any{"id": fmt.Sprintf("f%d-%s", i, values["huggingface"]), "session_id": name, "source": "user", "type": kind, "comment": text, "rater": values["email"], "correction": text, "details": map[string]any{"why": []string{text}}})
		if err != nil {
			t.Fatal(err)
		}
		for _, session := range []string{name, "nobody has " + values["slack"]} { // a known session, and an unknown one
			entry := strings.Replace(string(b), `"session_id":`+jsonString(name), `"session_id":`+jsonString(session), 1)
			if code, answer := harness.Post(t, p.DataURL+"/v1/feedback", header, entry); code != 202 {
				t.Fatalf("feedback: got status %d, want 202; body %s", code, answer)
			}
		}
	}
	for _, invalid := range []string{`{"messages":` + jsonString(text), `{"session_id":` + jsonString(text) + `,"x":1}`} { // error messages must not quote the text
		harness.Post(t, p.DataURL+"/v1/feedback", header, invalid)
		harness.Post(t, p.DataURL+"/v1/chat/completions?key="+values["google"], header, invalid)
	}
	p.Eventually("the closed session in /metrics", func() bool {
		_, metrics := harness.Get(t, p.AdminURL+"/metrics", "t")
		return strings.Contains(metrics, `precept_sessions_closed_total 1`)
	})
	p.WaitUntilDrained(dir)
	all := harness.Files(t, dir)
	if len(harness.FilesWith(all, "REDACTED:email:")) == 0 || len(all) < 3 {
		t.Fatalf("data directory: got %d files, want at least 3 files, of which one contains a redacted email address", len(all))
	}
	_, all["/metrics"] = harness.Get(t, p.AdminURL+"/metrics", "t")
	all["the log"] = p.Log.String()
	p.Signal(syscall.SIGTERM)
	if code := p.ExitCode(); code != 0 {
		t.Fatalf("precept serve: got exit code %d, want 0\n%s", code, p.Log.String())
	}
	for file, content := range harness.Files(t, dir) {
		all["after shutdown: "+file] = content
	}
	all["the store's documents"] = storedDocuments(t, dir) // in the database file, the documents are compressed
	for _, format := range []string{"mplp", "openai", "preference", "experiment"} {
		out, stderr, code := harness.RunCommand(t, "", "export", "--data-dir", dir, "--format", format)
		if code != 0 || out == "" && format != "experiment" {
			t.Errorf("export --format %s: got exit code %d, output %q, standard error %s, want exit code 0, and for every format except experiment at least one record", format, code, out, stderr)
		}
		all["export "+format] = out
	}
	path := filepath.Join(t.TempDir(), "x.parquet")
	if _, stderr, code := harness.RunCommand(t, "", "export", "--data-dir", dir, "--format", "parquet", "--output", path); code != 0 {
		t.Errorf("export --format parquet: got exit code %d, standard error %s, want 0", code, stderr)
	}
	for file, content := range harness.Files(t, filepath.Dir(path)) {
		rows := parquetRows(t, []byte(content))
		b, err := json.Marshal(rows)
		if err != nil || len(rows) == 0 {
			t.Errorf("%s: got %d rows, error %v, want at least 1 row", file, len(rows), err)
		}
		all["export parquet"], all[file] = string(b), content
	}
	for _, leak := range findLeaks(all, values) {
		t.Errorf("leaked canary: %s", leak)
	}
}

// storedDocuments returns the store's exchanges, samples, sessions and feedback as JSON.
func storedDocuments(t *testing.T, dir string) string {
	t.Helper()
	db, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(dir, "precept.db"), ReadOnly: true, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	var b strings.Builder
	encode := func(v any) error { return json.NewEncoder(&b).Encode(v) }
	err = storetest.EachExchange(t.Context(), db, func(x sample.Exchange) error { return encode(x) })
	if err == nil {
		err = db.EachSample(t.Context(), "", time.Time{}, time.Time{}, func(s session.StoredSample) error { return encode(s) })
	}
	if err == nil {
		err = db.EachSession(t.Context(), "", time.Time{}, time.Time{}, func(r session.Row, a session.SettledState) error {
			entries, err := db.Feedback(t.Context(), r.Tenant, r.ID)
			return errors.Join(err, encode(string(r.Data)), encode(entries), encode(string(a.AssignmentAtClose)))
		})
	}
	if err != nil || b.Len() < 1000 {
		t.Fatalf("documents in the store: got %d bytes, error %v, want at least 1000 bytes", b.Len(), err)
	}
	return b.String()
}

func jsonString(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

func parquetRows(t *testing.T, file []byte) []lake.Row {
	t.Helper()
	rows, err := parquet.Read[lake.Row](bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	return rows
}
