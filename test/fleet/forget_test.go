package fleet

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"precept/store/storetest"
	"precept/test/harness"
)

func TestForgetLeavesNothingInRedis(t *testing.T) {
	t.Parallel()
	const first, second, third = "heliotrope-4711", "marigold-0815", "larkspur-2718"
	server := storetest.StartRedis(t, "--rdbcompression", "no")
	model := harness.RepeatingServer(t, harness.ChatReply("chatcmpl-1", "It is "+first+"."), harness.ChatReply("chatcmpl-2", "It is "+second+"."), harness.ChatReply("chatcmpl-3", "It is "+third+"."))
	dir := t.TempDir()
	p := harness.Launch(t, dir, nil, "--upstream", model.URL+"/v1", "--reward-close-after", "300ms", "--store-url", server.URL()).WaitUntilReady(dir)
	for _, word := range []string{first, second, third} {
		body := `{"model":"m","messages":[{"role":"user","content":"Tell me about ` + word + `, please."}]}`
		p.Chat(t, http.Header{"Precept-Session": {"a-" + word}}, body)
		p.PostFeedback(t, nil, `{"session_id":"a-`+word+`","source":"user","type":"approval","comment":"about `+word+`"}`)
	}
	p.Eventually("3 exported samples", func() bool {
		out, err := harness.CommandOutput(t, "export", "--store-url", server.URL(), "--data-dir", t.TempDir())
		return err == nil && strings.Count(out, "\n") == 3
	})
	forget := func(args ...string) string {
		t.Helper()
		out, stderr, code := harness.RunCommand(t, "", append([]string{"forget", "--yes", "--store-url", server.URL()}, args...)...)
		if code != 0 {
			t.Fatalf("forget %v: got exit code %d, output %s, standard error %s, want 0", args, code, out, stderr)
		}
		return out
	}
	checkRemoved := func(word string) {
		t.Helper()
		if places := append(harness.FilesWith(harness.Dump(t, server), word), harness.FilesWith(harness.Files(t, dir), word)...); len(places) > 0 {
			t.Errorf("keys and files with the forgotten word %s: got %v, want none", word, places)
		}
	}
	for _, word := range []string{first, second, third} {
		if len(harness.FilesWith(harness.Dump(t, server), word)) == 0 || len(harness.FilesWith(harness.Files(t, dir), word)) == 0 {
			t.Fatalf("Redis or the files lack %s before precept forget", word)
		}
	}

	if out := forget("--session", "a-"+first, "--data-dir", dir); !strings.Contains(out, "(1 session)") {
		t.Errorf("forget while the server is running = %s, want (1 session)", out)
	}
	checkRemoved(first)
	p.Signal(syscall.SIGTERM)
	if code := p.ExitCode(); code != 0 {
		t.Fatalf("server after SIGTERM: got exit code %d, want 0\n%s", code, p.Log.String())
	}
	if out := forget("--session", "a-"+second, "--data-dir", dir); !strings.Contains(out, "(1 session)") {
		t.Errorf("forget without a server = %s, want (1 session)", out)
	}
	checkRemoved(second)
	otherDataDir := filepath.Join(t.TempDir(), "none")
	if len(harness.FilesWith(harness.Dump(t, server), third)) == 0 {
		t.Errorf("Redis lacks %s before precept forget --tenant", third)
	}
	if out := forget("--tenant", "default", "--data-dir", otherDataDir); !strings.Contains(out, "(1 session)") {
		t.Errorf("forget from another machine = %s, want (1 session)", out)
	}
	if places := harness.FilesWith(harness.Dump(t, server), third); len(places) > 0 {
		t.Errorf("keys with the forgotten word %s: got %v, want none", third, places)
	}
	if _, err := os.Stat(otherDataDir); !os.IsNotExist(err) {
		t.Errorf("data directory after forget from another machine: got error %v, want no directory", err)
	}
	if out := forget("--tenant", "default", "--data-dir", dir); !strings.Contains(out, "no stored data") {
		t.Errorf("second forget = %s, want a note that the tenant has no stored data", out)
	}
	checkRemoved(third)

	server.Kill()
	if _, stderr, code := harness.RunCommand(t, "", "forget", "--yes", "--tenant", "default", "--store-url", server.URL(), "--data-dir", dir); code != 1 || !strings.Contains(stderr, "cannot be reached") {
		t.Errorf("forget without Redis: got exit code %d, want 1 and \"cannot be reached\"; standard error %s", code, stderr)
	}
}

// A frozen Redis replica does not receive the deletion, so a failover to this replica would bring the session back.
func TestForgetWarnsIfNoRedisReplicaHasTheDeletion(t *testing.T) {
	t.Parallel()
	server := storetest.StartRedis(t)
	replica := storetest.StartRedis(t, "--replicaof", "127.0.0.1", server.Addr[strings.LastIndex(server.Addr, ":")+1:])
	harness.Eventually(t, "a connected Redis replica", func() bool {
		info, _ := replica.MustDo(t, "INFO", "replication").(string)
		return strings.Contains(info, "master_link_status:up")
	})
	dir := t.TempDir()
	p := harness.StartWithUpstream(t, dir, harness.RepeatingServer(t, harness.ChatReply("r", "hello")).URL, "--store-url", server.URL())
	for _, name := range []string{"first", "second"} {
		p.Chat(t, http.Header{"Precept-Session": {name}}, `{"model":"m","messages":[{"role":"user","content":"Sweep the yard."}]}`)
	}
	p.Stop()
	for name, frozen := range map[string]bool{"first": false, "second": true} {
		if frozen {
			replica.Freeze(t)
		}
		out, stderr, code := harness.RunCommand(t, "", "forget", "--yes", "--session", name, "--store-url", server.URL(), "--data-dir", dir)
		if warned := strings.Contains(stderr, "no Redis replica has acknowledged the change"); code != 0 || !strings.Contains(out, "(1 session)") || warned != frozen {
			t.Errorf("forget (Redis replica frozen: %v): got exit code %d, output %s, standard error %s, want exit code 0, \"(1 session)\", and a warning if the replica is frozen", frozen, code, out, stderr)
		}
		if frozen {
			replica.Thaw(t)
		}
	}
}

// importCounts is the output of precept import. Fresh counts the samples that were not in the store before.
type importCounts struct{ Transcripts, Exchanges, Samples, Fresh int }

func TestRepeatedImportAddsNoSamples(t *testing.T) {
	t.Parallel()
	const transcripts = `{"source":"ci","id":"1","messages":[{"role":"user","content":"Paint the shed for amy@example.com."},{"role":"assistant","content":"It is painted."}]}
{"source":"ci","id":"2","input":[{"role":"user","content":"Sweep the yard."},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"It is swept."}]}]}
`
	file := filepath.Join(t.TempDir(), "past.jsonl")
	if err := os.WriteFile(file, []byte(transcripts), 0o600); err != nil {
		t.Fatal(err)
	}
	importTranscripts := func(t *testing.T, dir, url string, more ...string) (sum importCounts) {
		t.Helper()
		out := harness.MustRun(t, append([]string{"import", file, "--json", "--data-dir", dir, "--store-url", url}, more...)...)
		if err := json.Unmarshal([]byte(out), &sum); err != nil {
			t.Fatalf("precept import --json: decode output %[2]s: %[1]v", err, out)
		}
		return sum
	}
	stores := map[string]func(t *testing.T, dir string) (url string){
		"embedded": func(_ *testing.T, dir string) string { return filepath.Join(dir, "precept.db") },
		"redis": func(t *testing.T, _ string) string {
			t.Helper()
			return storetest.StartRedis(t).URL()
		},
	}
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			url := open(t, dir)
			firstCounts, repeatedCounts := importCounts{Transcripts: 2, Exchanges: 2, Samples: 2, Fresh: 2}, importCounts{Transcripts: 2, Exchanges: 2, Samples: 2}
			if got := importTranscripts(t, dir, url); got != firstCounts {
				t.Errorf("first import = %+v, want %+v", got, firstCounts)
			}
			before := harness.MustRun(t, "export", "--data-dir", dir, "--store-url", url)
			if got := importTranscripts(t, dir, url); got != repeatedCounts {
				t.Errorf("second import = %+v, want %+v", got, repeatedCounts)
			}
			if after := harness.MustRun(t, "export", "--data-dir", dir, "--store-url", url); after != before || strings.Count(after, "\n") != 2 {
				t.Errorf("export after the second import:\n%s\nwant the 2 lines from before:\n%s", after, before)
			}
			if strings.Contains(before, "amy@example.com") || !strings.Contains(before, "[REDACTED:email:1]") {
				t.Errorf("export =\n%s\nwant [REDACTED:email:1] instead of the address", before)
			}
			if got := importTranscripts(t, dir, url, "--tenant", "acme"); got != firstCounts {
				t.Errorf("import for a second tenant = %+v, want %+v", got, firstCounts)
			}
			model := harness.RepeatingServer(t, harness.ChatReply("chatcmpl-1", "Hello."))
			p := harness.Launch(t, dir, nil, "--upstream", model.URL+"/v1", "--store-url", url).WaitUntilReady(dir)
			if got := importTranscripts(t, dir, url); got != repeatedCounts {
				t.Errorf("import while the server is running = %+v, want %+v", got, repeatedCounts)
			}
			p.Signal(syscall.SIGTERM)
			p.ExitCode()
		})
	}
}
