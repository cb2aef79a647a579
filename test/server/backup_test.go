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

// The test makes and restores a backup with the commands in docs/OPERATIONS.md.
func TestRestoredBackupHasSameReportAndSamples(t *testing.T) {
	t.Parallel()
	model, lessons, home := harness.InstantModel(t), t.TempDir(), t.TempDir()
	banktest.WriteLesson(t, lessons, "look-first", "build script")
	dir := filepath.Join(home, "data")
	start := func() *harness.Process {
		return harness.Launch(t, dir, nil, "--upstream", model.URL+"/v1", "--lessons", lessons, "--reward-close-after", "1s", "--bandit-epsilon", "0.5", "--bandit-control", "0.2").WaitUntilReady(dir)
	}
	sendChat := func(p *harness.Process, name string) {
		t.Helper()
		p.Chat(t, http.Header{"Precept-Session": {name}}, `{"model":"m","messages":[{"role":"user","content":"fix the build script"}]}`)
	}
	runPrecept := func(args ...string) string {
		t.Helper()
		out, stderr, code := harness.RunCommand(t, "", append(args, "--data-dir", dir, "--lessons", lessons)...)
		if code != harness.ExitOK {
			t.Fatalf("precept %v: got exit code %d, standard error %s, want 0", args, code, stderr)
		}
		return out
	}
	p := start()
	for i := range 30 {
		name := fmt.Sprint("s", i)
		sendChat(p, name)
		p.PostFeedback(t, nil, fmt.Sprintf(`{"session_id":%q,"source":"user","type":"score","score":%d}`, name, i%2))
	}
	p.Eventually("30 exported samples", func() bool { return strings.Count(runPrecept("export"), "\n") == 30 })
	before := reportWithoutTime(t, runPrecept("report", "--json"))

	runShell := func(script string) {
		t.Helper()
		c := exec.CommandContext(t.Context(), "sh", "-ec", script)
		c.Dir = home
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("sh -ec %q: %v\n%s", script, err, out)
		}
	}
	const (
		setUmask   = "umask 077"
		copyToken  = "mkdir backup && cp data/admin-token backup/"
		copyOutbox = "VACUUM INTO 'backup/outbox.db'"
		copyStore  = "VACUUM INTO 'backup/precept.db'"
		restore    = "mv data damaged && cp -R backup data"
	)
	documented, err := os.ReadFile(filepath.Join("../..", "docs", "OPERATIONS.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{setUmask, copyToken, copyOutbox, copyStore, restore} {
		if !strings.Contains(string(documented), line) {
			t.Errorf("docs/OPERATIONS.md lacks the command %q", line)
		}
	}
	runShell(copyToken)
	for _, database := range []struct{ file, statement string }{{"outbox.db", copyOutbox}, {"precept.db", copyStore}} {
		db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, database.file)+"?_pragma=busy_timeout(10000)")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.ExecContext(t.Context(), strings.Replace(database.statement, "backup/", filepath.Join(home, "backup")+"/", 1)); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}

	for i := range 10 { // sessions after the backup, which the restore must remove
		sendChat(p, fmt.Sprint("later-", i))
	}
	p.Eventually("40 exported samples", func() bool { return strings.Count(runPrecept("export"), "\n") == 40 })
	p.Kill()
	runShell(restore)
	p = start()
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s after the restore: got mode %v, want no access for others", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := reportWithoutTime(t, runPrecept("report", "--json")); got != before {
		t.Errorf("report after the restore: got\n%s\nwant the report from before the backup\n%s", got, before)
	}
	if n := strings.Count(runPrecept("export"), "\n"); n != 30 {
		t.Errorf("exported samples after the restore: got %d, want 30", n)
	}
	sendChat(p, "restored")
	p.Eventually("a session's sample after the restore", func() bool { return strings.Count(runPrecept("export"), "\n") == 31 })
	if d := harness.Doctor(t, dir); d.Dropped["damaged"] != 0 {
		t.Errorf("exchanges dropped as damaged after the restore: got %d, want 0", d.Dropped["damaged"])
	}
	p.Stop()
}

func reportWithoutTime(t *testing.T, report string) string {
	t.Helper()
	var r map[string]any
	if err := json.Unmarshal([]byte(report), &r); err != nil {
		t.Fatal(err)
	}
	delete(r, "generated_at")
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
