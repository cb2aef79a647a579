package fleet

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"precept/store/storetest"
	"precept/test/harness"
)

// precept migrate moves the keys of a store in Redis to shards (parts that a Redis Cluster can place on different
// nodes). Replicas log that the migration is needed, continue the sessions afterwards, and warn about keys that an
// older release writes outside the shards.
func TestReplicasContinueAfterMigrate(t *testing.T) {
	t.Parallel()
	server := storetest.StartRedis(t)
	server.MustDo(t, "SET", "precept:{precept}:shards", "1")
	model := harness.RepeatingServer(t, harness.ChatReply("chatcmpl-1", "One."), harness.ChatReply("chatcmpl-2", "Two."))
	start := func() *harness.Process {
		dir := t.TempDir()
		return harness.Launch(t, dir, nil, "--upstream", model.URL+"/v1", "--reward-close-after", "300ms", "--store-url", server.URL()).WaitUntilReady(dir)
	}
	one, two := start(), start()
	sendTurn := func(p *harness.Process, name, messages string) {
		t.Helper()
		p.Chat(t, http.Header{"Precept-Session": {name}}, `{"model":"m","messages":[`+messages+`]}`)
	}
	storedCounts := func() map[string]int64 {
		var d struct{ Store map[string]int64 }
		out, err := harness.CommandOutput(t, "doctor", "--json", "--store-url", server.URL(), "--data-dir", t.TempDir())
		if err != nil || json.Unmarshal([]byte(out), &d) != nil {
			return nil
		}
		return d.Store
	}
	first := `{"role":"user","content":"One?"}`
	sendTurn(one, "a", first)
	sendTurn(two, "b", first)
	one.Eventually("two samples", func() bool { return storedCounts()["samples"] == 2 })
	for _, p := range []*harness.Process{one, two} {
		if text := p.Log.String(); !strings.Contains(text, "run `precept migrate`") {
			t.Errorf("the log lacks the warning \"run `precept migrate`\":\n%s", text)
		}
	}
	var migrated struct{ Tenants, Sessions int }
	out := harness.MustRun(t, "migrate", "--yes", "--json", "--pause", "0s", "--store-url", server.URL(), "--data-dir", t.TempDir())
	if err := json.Unmarshal([]byte(out), &migrated); err != nil || migrated.Tenants != 1 || migrated.Sessions < 2 {
		t.Errorf("precept migrate = %s, error %v, want 1 tenant and at least 2 sessions", out, err)
	}
	history := first + `,{"role":"assistant","content":"One."},{"role":"user","content":"Two?"}`
	sendTurn(two, "a", history)
	sendTurn(one, "b", history)
	one.Eventually("four samples from two sessions", func() bool {
		n := storedCounts()
		return n["samples"] == 4 && n["sessions"] == 2 && n["exchanges"] == 4
	})
	if out := harness.MustRun(t, "migrate", "--store-url", server.URL(), "--data-dir", t.TempDir()); !strings.Contains(out, "already has shards") {
		t.Errorf("second precept migrate = %s, want \"already has shards\"", out)
	}
	server.MustDo(t, "SADD", "precept:{precept}:tenants", "foreign")
	server.MustDo(t, "ZADD", "precept:{"+hashTag("foreign")+"}:seen", "1", "session")
	if text := start().Log.String(); !strings.Contains(text, "written sessions outside the shards") || !strings.Contains(text, "foreign") {
		t.Errorf("log lacks a warning about the keys of tenant foreign outside the shards:\n%s", text)
	}
}

// hashTag returns the part in braces of a tenant's keys, as a release without shards writes it. Redis Cluster uses this
// part to choose the node for a key.
func hashTag(tenant string) string {
	sum := sha256.Sum256([]byte("precept tenant\x00" + tenant))
	return hex.EncodeToString(sum[:8])
}
