package fleet

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"precept/bandit/trial"
	"precept/internal/sample"
	"precept/internal/session"
	"precept/store/redis"
	"precept/store/storetest"
	"precept/test/harness"
)

var migrateTenants = flag.Int("migrate.tenants", 300, "number of idle tenants in TestMigrateManyTenants") //nolint:gochecknoglobals // a test flag

// precept migrate moves the keys of a store in Redis to shards (parts that a Redis Cluster can place on different
// nodes). During the migration, 100 busy tenants send requests, and Redis must process at most 500 commands per tenant.
func TestMigrateManyTenants(t *testing.T) {
	const busyTenants = 100
	server := storetest.StartRedis(t)
	server.MustDo(t, "SET", "precept:{precept}:shards", "1") // as in a store that a release without shards wrote
	fillOldLayout(t, server.URL(), *migrateTenants)
	model := harness.RepeatingServer(t, slices.Repeat([]string{harness.ChatReply("chatcmpl-1", "One.")}, 1<<16)...)
	dir := t.TempDir()
	p := harness.Launch(t, dir, nil, "--upstream", model.URL+"/v1", "--tenancy", "by-credential", "--reward-close-after", "2s", "--store-url", server.URL()).WaitUntilReady(dir)
	var sent, slowest atomic.Int64 // request count, and longest request in nanoseconds; written by one goroutine
	send := func() {
		n := sent.Add(1)
		header := http.Header{"Precept-Session": {fmt.Sprint("s", n)}, "Authorization": {fmt.Sprint("Bearer token-", n%busyTenants)}}
		started := time.Now()
		if code, response := harness.Post(t, p.DataURL+"/v1/chat/completions", header, `{"model":"m","messages":[{"role":"user","content":"One?"}]}`); code != http.StatusOK {
			t.Errorf("chat request: got status %d, body %s, want 200", code, response)
		}
		slowest.Store(max(slowest.Load(), int64(time.Since(started))))
	}
	stop, load := make(chan struct{}), sync.WaitGroup{}
	load.Go(func() {
		for tick := time.NewTicker(50 * time.Millisecond); ; <-tick.C {
			select {
			case <-stop:
				return
			default:
				send()
			}
		}
	})
	p.Eventually("requests from all busy tenants", func() bool { return sent.Load() > 2*busyTenants })
	infoNumber := func(section, name string) int64 {
		_, text, _ := strings.Cut(fmt.Sprint(server.MustDo(t, "INFO", section)), name+":")
		text, _, _ = strings.Cut(text, "\r")
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	keys, memory, commands := server.MustDo(t, "DBSIZE"), infoNumber("memory", "used_memory"), infoNumber("stats", "total_commands_processed")
	started := time.Now()
	cmd := exec.CommandContext(t.Context(), "precept", "migrate", "--yes", "--json", "--pause", "0s", "--store-url", server.URL(), "--data-dir", t.TempDir())
	cmd.Dir, cmd.Stderr = t.TempDir(), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	elapsed := time.Since(started)
	commands = infoNumber("stats", "total_commands_processed") - commands
	var result struct{ Tenants int }
	if err := json.Unmarshal(out, &result); err != nil || result.Tenants != *migrateTenants+busyTenants {
		t.Errorf("precept migrate = %s, error %v, want %d tenants", out, err, *migrateTenants+busyTenants)
	}
	usage, _ := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	t.Logf("migrate: %s, duration %v, CPU time %v, memory %d MB; slowest request %v; Redis: %d commands, keys before %v, after %v, memory before %d MB, after %d MB, peak %d MB",
		out, elapsed.Round(time.Millisecond), cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime(), usage.Maxrss>>10, time.Duration(slowest.Load()).Round(time.Millisecond), commands,
		keys, server.MustDo(t, "DBSIZE"), memory>>20, infoNumber("memory", "used_memory")>>20, infoNumber("memory", "used_memory_peak")>>20)
	if maxCommands := int64(500 * (*migrateTenants + busyTenants)); commands > maxCommands { // Redis also counts the chat requests' commands and the commands in Lua scripts
		t.Errorf("Redis commands during the migration: got %d, want at most %d", commands, maxCommands)
	}
	close(stop)
	load.Wait()
	want := sent.Load() + int64(*migrateTenants)
	p.Eventually("all sessions and exchanges in Redis", func() bool {
		var d struct{ Store map[string]int64 }
		out := harness.MustRun(t, "doctor", "--json", "--store-url", server.URL(), "--data-dir", t.TempDir())
		if err := json.Unmarshal([]byte(out), &d); err != nil {
			t.Fatal(err)
		}
		return d.Store["sessions"] == want && d.Store["exchanges"] == want
	})
}

// fillOldLayout writes the keys of idle tenants without shards, as an older release does. Each tenant has a session
// that the report already counts, and an echo (a key by which a later request finds the session).
func fillOldLayout(t *testing.T, url string, tenants int) {
	t.Helper()
	s, err := redis.Open(redis.Options{URL: url, Now: time.Now, Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // nothing remains to be written
	at := time.Now().Add(-time.Hour)
	text := []json.RawMessage{json.RawMessage(`{"role":"user","content":"` + strings.Repeat("Which command builds the project? ", 30) + `"}`)}
	for i := 0; i < tenants; {
		var b session.Batch
		var settlements []session.Settlement
		for range min(200, tenants-i) {
			tenant := fmt.Sprintf("idle-%05d", i)
			id := session.NamedID(tenant, session.NamespaceSession, "s")
			b.Rows = append(b.Rows, session.Row{Tenant: tenant, ID: id, Started: at, Seen: at, Closed: true, Data: []byte("{}")})
			b.Echoes = append(b.Echoes, session.Echo{Tenant: tenant, ID: id, Key: session.EchoKey(i), At: at})
			b.Exchanges = append(b.Exchanges, sample.Exchange{ID: fmt.Sprint("x", i), Tenant: tenant, Session: id.String(), At: at, Outcome: sample.Complete, New: text})
			b.Samples = append(b.Samples, session.StoredSample{Tenant: tenant, ID: id, Agent: "coder", Sample: sample.Sample{ID: fmt.Sprint("m", i), CreatedAt: at}})
			settlements = append(settlements, session.Settlement{Tenant: tenant, ID: id, To: session.SettledState{Version: 1}, Deltas: []trial.Delta{
				{Key: trial.Key{Scope: "arm/build-script", Field: "n", Day: 7}, Value: trial.FixedScale}, {Key: trial.Key{Scope: "all", Field: "n", Day: 7}, Value: trial.FixedScale},
			}})
			i++
		}
		if err := s.Write(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Settle(t.Context(), settlements); err != nil {
			t.Fatal(err)
		}
	}
}
