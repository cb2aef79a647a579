package privacy

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"precept/test/harness"
)

// toolOutput returns n bytes of random compiler output.
func toolOutput(r *rand.Rand, n int) string {
	words := strings.Fields("server handler request response error context buffer reader writer config session module package function return value index string number table column commit branch merge build test failed passed open close file path line token parse encode decode cache queue worker signal")
	var b strings.Builder
	for b.Len() < n {
		fmt.Fprintf(&b, "%s/%s_%d.go:%d: %s %s %x\n", words[r.IntN(len(words))], words[r.IntN(len(words))], r.IntN(1000), r.IntN(2000), words[r.IntN(len(words))], words[r.IntN(len(words))], r.Uint32())
	}
	return b.String()[:n]
}

// In each of 200 turns, an agent sends the whole history. All requests together are about a hundred times as long as
// the final transcript.
func TestLongSessionIsStoredWithoutRepetition(t *testing.T) {
	const turns, maxRatio = 200, 1.5 // maxRatio is the maximum size of the store, divided by the size of the final transcript
	r := rand.New(rand.NewPCG(7, 8))
	replies := make([]string, turns)
	history := []any{map[string]any{"role": "system", "content": toolOutput(r, 4000)}, map[string]any{"role": "user", "content": "Fix the build, please."}}
	for i := range replies {
		replies[i] = toolCallReply(fmt.Sprintf("chatcmpl-%03d-%08x", i, r.Uint32()), "sh", `{"command":"`+strings.ReplaceAll(toolOutput(r, 120), "\n", " ")+`"}`)
	}
	model := harness.RepeatingServer(t, replies...)
	dir := t.TempDir()
	p := harness.Launch(t, dir, []string{"PRECEPT_ADMIN_TOKEN=t"}, "--upstream", model.URL+"/v1", "--detect-loops=false").WaitUntilReady(dir)
	transcript, sent := 0, 0
	for i := range turns {
		body, err := json.Marshal(map[string]any{"model": "m", "messages": history, "tools": []any{map[string]any{"type": "function", "function": map[string]any{"name": "sh", "parameters": map[string]any{}}}}})
		if err != nil {
			t.Fatal(err)
		}
		sent += len(body)
		p.Chat(t, http.Header{"Precept-Session": {"long"}}, string(body))
		var reply struct {
			Choices []struct{ Message map[string]any }
		}
		if err := json.Unmarshal([]byte(replies[i]), &reply); err != nil {
			t.Fatal(err)
		}
		message := reply.Choices[0].Message
		id := message["tool_calls"].([]any)[0].(map[string]any)["id"]
		history = append(history, message, map[string]any{"role": "tool", "tool_call_id": id, "content": toolOutput(r, 2400)})
		final, err := json.Marshal(history)
		if err != nil {
			t.Fatal(err)
		}
		transcript = len(final)
	}
	p.Eventually("all exchanges to be stored", func() bool {
		_, text := harness.Get(t, p.AdminURL+"/metrics", "t")
		return strings.Contains(text, fmt.Sprintf(`precept_samples_total{outcome="exchange_stored"} %d`, turns))
	})
	p.Signal(syscall.SIGTERM)
	if code := p.ExitCode(); code != 0 {
		t.Fatalf("precept serve: got exit code %d, want 0\n%s", code, p.Log.String())
	}
	sizes := map[string]int{}
	for name, content := range harness.Files(t, dir) {
		sizes[name] = len(content)
	}
	stored := sizes["/precept.db"] + sizes["/precept.db-wal"]
	ratio := float64(stored) / float64(transcript)
	t.Logf("transcript: %d bytes; requests: %d bytes; store: %d bytes, %.2f times the transcript; files: %v", transcript, sent, stored, ratio, sizes)
	if ratio > maxRatio {
		t.Errorf("store size: got %.2f times the transcript, want at most %.1f times", ratio, maxRatio)
	}
}
