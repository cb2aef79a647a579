package server

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"precept/inject/bank/banktest"
	"precept/test/harness"
)

// A backup as in docs/OPERATIONS.md, with a running server, and its restore: the report, the
// samples and the assignments have their state at the time of the backup.
func TestBackupAndRestore(t *testing.T) {
	t.Parallel()
	up, lessons, home := harness.InstantModel(t), t.TempDir(), t.TempDir()
	banktest.WriteLesson(t, lessons, "look-first", "build script")
	dir := filepath.Join(home, "data")
	start := func() *harness.Process {
		return harness.Launch(t, dir, nil, "--upstream", up.URL+"/v1", "--lessons", lessons, "--reward-close-after", "1s", "--bandit-epsilon", "0.5", "--bandit-control", "0.2").Ready(dir)
	}
	say := func(p *harness.Process, name string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.Data+"/v1/chat/completions", strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"mend the build script"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Precept-Session", name)
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Fatalf("got %q, want status 200", res.Status)
		}
	}
	read := func(args ...string) string {
		t.Helper()
		out, stderr, code := harness.Verb(t, "", append(args, "--data-dir", dir, "--lessons", lessons)...)
		if code != harness.ExitDone {
			t.Fatalf("%v: got code %d, stderr %s, want exit code harness.ExitDone", args, code, stderr)
		}
		return out
	}
	p := start()
	for i := range 30 {
		name := fmt.Sprint("s", i)
		say(p, name)
		if code, text := harness.Post(t, p.Data+"/v1/feedback", nil, fmt.Sprintf(`{"session_id":%q,"source":"user","type":"score","score":%d}`, name, i%2)); code != http.StatusAccepted {
			t.Fatalf("feedback: got status %d, want 202: %s", code, text)
		}
	}
	p.Eventually("all samples", func() bool { return strings.Count(read("export"), "\n") == 30 })
	before := settledReport(t, func() string { return read("report", "--json") })

	sh := func(script string) {
		t.Helper()
		c := exec.CommandContext(t.Context(), "sh", "-ec", script)
		c.Dir = home
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%s: got error %v, out %s, want no error", script, err, out)
		}
	}
	const private, copying, queue, into = "umask 077", "mkdir backup && cp data/admin-token backup/", "VACUUM INTO 'backup/outbox.db'", "VACUUM INTO 'backup/precept.db'"
	documented, err := os.ReadFile(filepath.Join("../..", "docs", "OPERATIONS.md"))
	if err != nil {
		t.Fatal(err)
	}
	const putBack = "mv data damaged && cp -R backup data"
	for _, line := range []string{private, copying, queue, into, putBack} {
		if !strings.Contains(string(documented), line) {
			t.Errorf("docs/OPERATIONS.md does not say %q", line)
		}
	}
	sh(copying)
	for _, of := range [][2]string{{"outbox.db", queue}, {"precept.db", into}} {
		db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, of[0])+"?_pragma=busy_timeout(10000)")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.ExecContext(t.Context(), strings.Replace(of[1], "backup/", filepath.Join(home, "backup")+"/", 1)); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}

	for i := range 10 { // later sessions are not in the backup
		say(p, fmt.Sprint("later-", i))
	}
	p.Eventually("more samples", func() bool { return strings.Count(read("export"), "\n") == 40 })
	p.Kill()
	sh(putBack)
	p = start()
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v after the restore, want no access for others", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := settledReport(t, func() string { return read("report", "--json") }); got != before {
		t.Errorf("the report after the restore is\n%s\nwant\n%s", got, before)
	}
	if n := strings.Count(read("export"), "\n"); n != 30 {
		t.Errorf("%d samples, want 30", n)
	}
	say(p, "afterwards")
	p.Eventually("the later exchanges", func() bool { return strings.Count(read("export"), "\n") == 31 })
	if d := harness.Doctor(t, dir); d.Dropped["damaged"] != 0 {
		t.Errorf(`got %+v, want Dropped["damaged"] = 0`, d)
	}
	p.Stop()
}

// settledReport returns a report without its creation time.
func settledReport(t *testing.T, read func() string) string {
	t.Helper()
	var r map[string]any
	if err := json.Unmarshal([]byte(read()), &r); err != nil {
		t.Fatal(err)
	}
	delete(r, "generated_at")
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
