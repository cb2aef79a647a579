package verbs

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"precept/internal/sample"
	"precept/internal/session"
	"precept/store/outbox"
	"precept/store/redis"
	"precept/store/storetest"
	"precept/test/harness"
)

// When its memory is full, Redis deletes keys (evicts them), unless the policy is noeviction. precept warns about every
// other policy.
func TestRedisEvictionPolicyIsReported(t *testing.T) {
	server := storetest.StartRedis(t)
	model := harness.RepeatingServer(t, harness.ChatReply("r", "hello"))
	for policy, warns := range map[string]bool{"noeviction": false, "allkeys-lru": true, "volatile-ttl": true} {
		server.MustDo(t, "CONFIG", "SET", "maxmemory-policy", policy)
		p := harness.StartWithUpstream(t, t.TempDir(), model.URL, "--store-url", server.URL())
		p.Eventually(fmt.Sprintf("warning about Redis policy %s in the server log: %v", policy, warns), func() bool {
			return strings.Contains(p.Log.String(), "maxmemory_policy="+policy) == warns
		})
		out, stderr, code := harness.RunCommand(t, "", "doctor", "--data-dir", p.Dir, "--store-url", server.URL())
		if warned := strings.Contains(strings.Join(strings.Fields(out), " "), "(maxmemory-policy "+policy+")"); code != harness.ExitOK || warned != warns {
			t.Errorf("doctor with Redis policy %s: got exit code %d, warning: %v; want exit code 0, warning: %v; output:\n%s%s", policy, code, warned, warns, out, stderr)
		}
		p.Stop()
	}
}

func TestDoctorReportsMissingExchanges(t *testing.T) {
	server := storetest.StartRedis(t)
	dir := t.TempDir()
	box, err := outbox.Open(outbox.Options{Path: filepath.Join(dir, "outbox.db"), QuotaBytes: 1 << 30, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	_, err = box.Append(&outbox.Flush{EarlierAccount: &outbox.Account{Admitted: 7, Incomplete: 2}})
	if err := errors.Join(err, box.Close()); err != nil {
		t.Fatal(err)
	}
	if d := harness.Doctor(t, dir, "--store-url", server.URL()); d.Missing != 5 || d.Stored != 5 || d.Incomplete != 2 {
		t.Errorf("doctor with an empty store: got %d missing, %d stored and %d incomplete exchanges, want 5, 5 and 2", d.Missing, d.Stored, d.Incomplete)
	}
	checkMissingReported := func(want bool) {
		t.Helper()
		out, stderr, code := harness.RunCommand(t, "", "doctor", "--data-dir", dir, "--store-url", server.URL())
		if reported := strings.Contains(strings.Join(strings.Fields(out), " "), "stored exchanges missing from the store and the outbox: "); code != harness.ExitOK || reported != want {
			t.Errorf("doctor: got exit code %d, reported missing exchanges: %v; want exit code 0, reported: %v; output:\n%s%s", code, reported, want, out, stderr)
		}
	}
	checkMissingReported(true)
	shared, err := redis.Open(redis.Options{URL: server.URL(), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer shared.Close()
	storeExchanges := func(tenant string, n int) {
		t.Helper()
		var b session.Batch
		for i := range n {
			x := sample.Exchange{ID: fmt.Sprint("x", i), Tenant: tenant, Session: session.ID{1}.String(), At: time.Now()}
			b.Exchanges = append(b.Exchanges, x)
		}
		if err := shared.Write(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	storeExchanges("default", 3)
	if d := harness.Doctor(t, dir, "--store-url", server.URL()); d.Missing != 2 {
		t.Errorf("doctor with 3 exchanges stored out of 5: got %d missing, want 2", d.Missing)
	}
	storeExchanges("other", 2) // doctor counts the exchanges of all tenants
	checkMissingReported(false)
}

func TestDoctorAgreesWithReadyz(t *testing.T) {
	type answer struct {
		OK    bool
		Ready struct {
			Ready     bool
			URL, Says string
		}
		DataDirError string `json:"data_dir_error"`
	}
	// waitForAnswer waits until /readyz and doctor report the state want. It calls prepare before each attempt, because
	// a full outbox soon has room again.
	waitForAnswer := func(p *harness.Process, want string, prepare func(), flags ...string) {
		t.Helper()
		p.Eventually("the answer "+want+" from /readyz and doctor", func() bool {
			prepare()
			if _, body := harness.Get(t, p.DataURL+"/readyz", ""); strings.TrimSpace(body) != want {
				return false
			}
			var d answer
			out, stderr, code := harness.RunCommand(t, "", append([]string{"doctor", "--json", "--data-dir", p.Dir}, flags...)...)
			if err := json.Unmarshal([]byte(out), &d); err != nil || d.OK != (code == harness.ExitOK) {
				t.Fatalf("doctor --json: got exit code %d, output %s (error %v), standard error %s, want JSON, with exit code 0 if ok is true and otherwise with another exit code", code, out, err, stderr)
			}
			wantCode := harness.ExitFailed
			if want == "ok" {
				wantCode = harness.ExitOK
			}
			return code == wantCode && d.Ready.Says == want && d.Ready.Ready && d.Ready.URL == p.DataURL+"/readyz" && (d.DataDirError != "") == strings.Contains(want, "data directory")
		})
	}
	noop := func() {}
	model := harness.RepeatingServer(t, harness.ChatReply("r", "hello"))
	server := storetest.StartRedis(t)
	storeFlags := []string{"--store-url", server.URL()}
	p := harness.StartWithUpstream(t, t.TempDir(), model.URL, append(storeFlags, "--limits-outbox-bytes", "1MiB")...)
	waitForAnswer(p, "ok", noop, storeFlags...)
	server.Kill()
	waitForAnswer(p, "ok, degraded: precept cannot write to the store", noop, storeFlags...)
	sendLargeRequest := func() {
		t.Helper()
		p.Chat(t, nil, fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":%q}]}`, harness.RandomHex(100<<10)))
	}
	for range 24 {
		sendLargeRequest()
	}
	waitForAnswer(p, "ok, degraded: precept cannot write to the store, and the outbox is full: new exchanges are dropped", sendLargeRequest, storeFlags...)
	p.Stop()

	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p = harness.Launch(t, filepath.Join(file, "data"), nil, "--upstream", model.URL+"/v1")
	readyLine := regexp.MustCompile(`data=(http://(\S+)) admin`)
	p.Eventually("the ready line", func() bool { return readyLine.MatchString(p.Log.String()) })
	found := readyLine.FindStringSubmatch(p.Log.String())
	p.DataURL = found[1]
	waitForAnswer(p, "ok, degraded: nothing is stored, because the data directory is not writable", noop, "--listen", found[2])
	p.Stop()
	if strings.Contains(p.Log.String(), "available again") {
		t.Errorf("server log while the store is unavailable: want no line with \"available again\", got\n%s", p.Log.String())
	}
}

// The server was killed and left run.json behind. The process id in this file now belongs to another program, so
// doctor must read the outbox.
func TestDoctorReportsUnreadableOutbox(t *testing.T) {
	dir := t.TempDir()
	p := harness.StartWithUpstream(t, dir, harness.RepeatingServer(t, harness.ChatReply("r", "hello")).URL)
	p.Stop()
	run := fmt.Sprintf(`{"pid":%d,"data":"http://127.0.0.1:1","admin":"http://127.0.0.1:1"}`, os.Getpid())
	for name, text := range map[string]string{"run.json": run, "outbox.db": strings.Repeat("not a database ", 1000)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, stderr, code := harness.RunCommand(t, "", "doctor", "--data-dir", dir); code != harness.ExitFailed || !strings.Contains(stderr, "outbox") {
		t.Errorf("doctor: got exit code %d, output %s, standard error %q, want %d and an error about the outbox", code, out, stderr, harness.ExitFailed)
	}
}

func TestDoctorExplainsUnreadableStore(t *testing.T) {
	model := harness.RepeatingServer(t, harness.ChatReply("r", "hello"))
	other := harness.StartWithUpstream(t, t.TempDir(), model.URL)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	out, stderr, code := harness.RunCommand(t, "", "doctor", "--data-dir", filepath.Join(file, "data"), "--listen", strings.TrimPrefix(other.DataURL, "http://"))
	if code != harness.ExitFailed || strings.Contains(out+stderr, "does not exist yet") || strings.Contains(out, "readyz") || !strings.Contains(stderr, "not a directory") {
		t.Errorf("doctor with an unreadable data directory: got exit code %d, output %s, standard error %s, want exit code 1, \"not a directory\", and nothing about a different server", code, out, stderr)
	}
	p := harness.StartWithUpstream(t, t.TempDir(), model.URL, "--store-url", storetest.StartRedis(t).URL())
	out, stderr, code = harness.RunCommand(t, "", "doctor", "--data-dir", p.Dir)
	if text := strings.Join(strings.Fields(out), " "); code != harness.ExitFailed || !strings.Contains(stderr, "1 check failed: store\n") || strings.Contains(text, "does not exist yet") || !strings.Contains(text, "name the server's store with --store-url") {
		t.Errorf("doctor without --store-url while a server uses Redis: got exit code %d, output %s, standard error %s, want exit code 1 and the advice to use --store-url", code, out, stderr)
	}
}

// If a key in the configuration has an invalid value, doctor fails if it uses the key itself. If only the server uses
// the key, doctor prints a warning.
func TestDoctorReportsConfigurationFaults(t *testing.T) {
	p := harness.StartWithUpstream(t, t.TempDir(), harness.RepeatingServer(t, harness.ChatReply("r", "hello")).URL)
	for _, tc := range []struct {
		name, config string
		flags        []string
		code         int
		want         []string
		wantCounts   bool // exchange counts in the output
	}{
		{"no faults", "{}\n", []string{"--data-dir", p.Dir}, harness.ExitOK, nil, true},
		{"value out of range", "bandit: {epsilon: 3}\n", []string{"--data-dir", p.Dir}, harness.ExitFailed, []string{"precept.yaml:1: bandit.epsilon", "/readyz: ok", "1 check failed: configuration"}, true},
		{"invalid key of the server only", "upstream: nonsense\n", []string{"--data-dir", p.Dir}, harness.ExitOK, []string{"warning: ", "precept.yaml:1: upstream"}, true},
		{"invalid YAML", "bandit: [\n", []string{"--data-dir", p.Dir}, harness.ExitFailed, []string{"is not YAML", "/readyz: ok"}, true},
		{"invalid YAML without --data-dir", "bandit: [\n", nil, harness.ExitFailed, []string{"is not YAML", "set --data-dir"}, false},
		{"invalid store.url without --data-dir", "store: {url: 'redis://h:x'}\n", nil, harness.ExitFailed, []string{"precept.yaml:1: store.url", "set --data-dir"}, false},
	} {
		file := filepath.Join(t.TempDir(), "precept.yaml")
		if err := os.WriteFile(file, []byte(tc.config), 0o600); err != nil {
			t.Fatal(err)
		}
		out, stderr, code := harness.RunCommand(t, "", append([]string{"doctor", "--config", file}, tc.flags...)...)
		all := strings.Join(strings.Fields(out+stderr), " ")
		if hasCounts := strings.Contains(out, "exchanges admitted"); code != tc.code || hasCounts != tc.wantCounts {
			t.Errorf("%s: got exit code %d, exchange counts in the output: %v; want exit code %d, exchange counts: %v; output:\n%s%s", tc.name, code, hasCounts, tc.code, tc.wantCounts, out, stderr)
		}
		if strings.Contains(all, "outdated") {
			t.Errorf("%s: got %s, want no remark that the run file is outdated, because the server answers", tc.name, all)
		}
		for _, want := range tc.want {
			if !strings.Contains(all, want) {
				t.Errorf("%s: got %s, want %q", tc.name, all, want)
			}
		}
	}
	if _, stderr, code := harness.RunCommand(t, "", "doctor", "--data-dir", p.Dir, "--bandit-epsilon", "3"); code != harness.ExitMisuse || !strings.Contains(stderr, "--bandit-epsilon") {
		t.Errorf("doctor --bandit-epsilon 3: got exit code %d, standard error %s, want exit code %d and an error that names the flag", code, stderr, harness.ExitMisuse)
	}
}

// A directory with the name of the snapshot file makes Redis fail to write its snapshot. Redis then rejects writes and
// PING, as it does if the disk is full.
func TestCommandsReadFromRedisWithAFullDisk(t *testing.T) {
	server := storetest.StartRedis(t)
	p := harness.StartWithUpstream(t, t.TempDir(), harness.RepeatingServer(t, harness.ChatReply("r", "hello")).URL, "--store-url", server.URL())
	p.Chat(t, nil, `{"model":"m","messages":[{"role":"user","content":"Sweep the yard."}]}`)
	p.Stop()
	dir, _ := server.MustDo(t, "CONFIG", "GET", "dir").([]any)
	if err := os.Mkdir(filepath.Join(fmt.Sprint(dir[1]), "dump.rdb"), 0o700); err != nil {
		t.Fatal(err)
	}
	server.MustDo(t, "CONFIG", "SET", "save", "3600 1")
	server.MustDo(t, "BGSAVE")
	harness.Eventually(t, "a failed snapshot", func() bool {
		return strings.Contains(fmt.Sprint(server.MustDo(t, "INFO", "persistence")), "rdb_last_bgsave_status:err")
	})
	flags := []string{"--data-dir", p.Dir, "--store-url", server.URL()}
	out, stderr, code := harness.RunCommand(t, "", append([]string{"doctor"}, flags...)...)
	text := strings.Join(strings.Fields(out), " ")
	if code != harness.ExitFailed || !strings.Contains(stderr, "1 check failed: store\n") || !strings.Contains(text, "exchanges ever 1") ||
		!strings.Contains(text, "precept cannot write to the store: ") || !strings.Contains(text, "free disk space, then run BGSAVE in Redis") {
		t.Errorf("doctor: got exit code %d, standard error %s, output\n%s\nwant exit code 1, the counts of exchanges, and advice on what to do", code, stderr, out)
	}
	if out := harness.MustRun(t, append([]string{"export", "--format", "openai"}, flags...)...); !strings.Contains(out, "Sweep the yard.") {
		t.Errorf("export: got %s, want the stored conversation", out)
	}
	_, stderr, code = harness.RunCommand(t, "", append([]string{"forget", "--yes", "--tenant", "default"}, flags...)...)
	if code != harness.ExitFailed || !strings.Contains(stderr, "free disk space") {
		t.Errorf("forget: got exit code %d, standard error %s, want exit code 1 and advice on what to do", code, stderr)
	}
}
