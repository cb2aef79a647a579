package verbs

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"precept/cmd/precept/server"
	"precept/test/harness"
)

func TestCommandsFindRunningServer(t *testing.T) {
	t.Parallel()
	runtimeDir, data, project := t.TempDir(), t.TempDir(), t.TempDir()
	env := []string{"XDG_RUNTIME_DIR=" + runtimeDir, "XDG_DATA_HOME=" + t.TempDir()}
	p := harness.Launch(t, data, env, "--upstream", "http://127.0.0.1:9/v1").WaitUntilReady(data)
	file := filepath.Join(runtimeDir, "precept", "run.json")
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("run file: got %v, error %v, want mode 0600", info, err)
	}
	out, stderr, code := runIn(t, project, env, "run", "--", "sh", "-c", "echo $PRECEPT_URL")
	if code != 0 || strings.TrimSpace(out) != p.DataURL {
		t.Errorf("run: got exit code %d, PRECEPT_URL %q, want exit code 0 and the URL %s\n%s", code, out, p.DataURL, stderr)
	}
	if out, stderr, code = runIn(t, project, env, "doctor", "--json"); code != 0 || !strings.Contains(out, p.DataURL) {
		t.Errorf("doctor in a project folder: got exit code %d, want exit code 0 and an output with the server %s:\n%s%s", code, p.DataURL, out, stderr)
	}
	if out, stderr, code = runIn(t, project, env, "dashboard"); code != 0 || !strings.HasPrefix(out, p.AdminURL+"/login?token=") {
		t.Errorf("dashboard: got exit code %d, output %q, want exit code 0 and a login link to %s\n%s", code, out, p.AdminURL, stderr)
	}
	p.Stop()
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("run file after shutdown: got error %v, want no file", err)
	}
	if entries, err := os.ReadDir(project); err != nil || len(entries) > 0 {
		t.Errorf("files in the project: got %v, error %v, want none", entries, err)
	}
}

// The commands run in a folder other than the server's, with and without the server's configuration file. They must
// still use the server's lesson directory.
func TestLessonsCommandsUseServersDirectory(t *testing.T) {
	t.Parallel()
	runtimeDir, work, project := t.TempDir(), t.TempDir(), t.TempDir()
	env := []string{"XDG_RUNTIME_DIR=" + runtimeDir, "XDG_DATA_HOME=" + t.TempDir()}
	config, lessons := filepath.Join(work, "precept.yaml"), filepath.Join(work, "bank")
	if err := os.WriteFile(config, []byte("lessons: ./bank\ndata_dir: ./store\nupstream: http://127.0.0.1:9/v1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(lessons, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "precept", "serve", "--json", "--config", config, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
	cmd.Dir, cmd.Env = work, append(os.Environ(), env...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var run server.RunFile
	if err := json.NewDecoder(out).Decode(&run); err != nil {
		t.Fatal(err)
	}
	stdout, stderr, code := runIn(t, project, env, "lessons", "new", "ask-first", "--keyword", "push it", "--advice", "Ask the user first.")
	if code != 0 || !strings.Contains(stderr, "using the lessons in "+lessons+" (your running server's)") {
		t.Errorf("lessons new: got exit code %d, want exit code 0 and a message with the server's lesson directory:\n%s%s", code, stdout, stderr)
	}
	if _, err := os.Stat(filepath.Join(lessons, "ask-first.md")); err != nil {
		t.Errorf("file of the new lesson in the server's directory: got error %v, want the file", err)
	}
	for _, args := range [][]string{{"list"}, {"show", "ask-first"}, {"list", "--config", config}} {
		if stdout, stderr, code = runIn(t, project, env, append([]string{"lessons"}, args...)...); code != 0 || !strings.Contains(stdout, "ask-first") {
			t.Errorf("lessons %v: got exit code %d, want exit code 0 and a message with ask-first:\n%s%s", args, code, stdout, stderr)
		}
	}
	if stdout, stderr, code = runIn(t, project, env, "run", "--config", config, "--", "sh", "-c", "echo $PRECEPT_URL"); code != 0 || strings.TrimSpace(stdout) != run.DataURL {
		t.Errorf("run --config: got exit code %d, PRECEPT_URL %q, want exit code 0 and the URL %s\n%s", code, stdout, run.DataURL, stderr)
	}
	if stdout, stderr, code = runIn(t, project, env, "check", "--config", config); code != 0 || !strings.Contains(stderr, filepath.Join(project, "bank")+" does not exist") {
		t.Errorf("check --config in a folder without ./bank: got exit code %d, want exit code 0 and a note that ./bank does not exist:\n%s%s", code, stdout, stderr)
	}
	if entries, err := os.ReadDir(project); err != nil || len(entries) > 0 {
		t.Errorf("files in the project: got %v, error %v, want none", entries, err)
	}
	if err := os.Mkdir(filepath.Join(project, "lessons"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(project, "lessons", "x.md"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if stdout, stderr, code = runIn(t, project, env, "lessons", "list"); code != 0 || !strings.Contains(stderr, "your running server uses the lessons in "+lessons) {
		t.Errorf("lessons list in a folder that has lessons: got exit code %d, want exit code 0 and a message with the server's lesson directory:\n%s%s", code, stdout, stderr)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("precept serve after SIGTERM: %v", err)
	}
}

func TestRunIgnoresDeadServersRunFile(t *testing.T) {
	t.Parallel()
	runtimeDir, dataHome := t.TempDir(), t.TempDir()
	dir := filepath.Join(runtimeDir, "precept")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	stale := fmt.Sprintf(`{"pid":%d,"data":"http://127.0.0.1:1","admin":"http://127.0.0.1:1","data_dir":%q}`, 1<<22+1 /* above the largest process id on Linux */, t.TempDir())
	if err := os.WriteFile(filepath.Join(dir, "run.json"), []byte(stale), 0o600); err != nil {
		t.Fatal(err)
	}
	_, stderr, code := runIn(t, t.TempDir(), []string{"XDG_RUNTIME_DIR=" + runtimeDir, "XDG_DATA_HOME=" + dataHome}, "run", "--upstream", "http://127.0.0.1:9/v1", "--", "true")
	if code != 0 || !strings.Contains(stderr, "no server is running, so this command starts one: upstream http://127.0.0.1:9/v1") {
		t.Errorf("run with an outdated run file: got exit code %d, want exit code 0 and a message with \"this command starts one\":\n%s", code, stderr)
	}
}

func TestSecondStartLogsTheDashboardAddress(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	p := harness.Start(t, data)
	p.Stop()
	p = harness.Start(t, data)
	if want := "dashboard: " + p.AdminURL + " (`precept dashboard` prints the login link)"; !strings.Contains(p.Log.String(), want) {
		t.Errorf("log of the second start: want %q, got\n%s", want, p.Log.String())
	}
}

func TestReportCountsOpenSessions(t *testing.T) {
	t.Parallel()
	m := harness.NewModel(t, []harness.Step{{Text: "Done."}})
	data := t.TempDir()
	p := harness.Start(t, data, harness.AlwaysInject(m, harness.LessonDir(t))...)
	body := `{"model":"m","messages":[{"role":"user","content":"Please run the build script."}]}`
	p.Chat(t, nil, body)
	const openSessions, closeTime = "1 session is open and does not count yet.", " and then counts (reward.close_after = 24h)."
	harness.Eventually(t, "the open session in the report", func() bool {
		out := harness.MustRun(t, "report", "--data-dir", data, "--admin-tokens", "e2e-token")
		text := strings.Join(strings.Fields(out), " ")
		return strings.Contains(text, openSessions) && strings.Contains(text, closeTime)
	})
	out, stderr, code := runIn(t, data, nil, "export", "--data-dir", data)
	if code != 0 || out != "" || !strings.Contains(stderr, openSessions) || !strings.Contains(stderr, closeTime+" The export contains no samples from open sessions.") {
		t.Errorf("export: got exit code %d, output %q, standard error %q, want exit code 0, no output, and a note about the open session", code, out, stderr)
	}
}

func TestReportCountsClosedSessionsWithoutAMatch(t *testing.T) {
	t.Parallel()
	m := harness.NewModel(t, []harness.Step{{Text: "Done."}})
	data := t.TempDir()
	p := harness.Start(t, data, append(harness.AlwaysInject(m, harness.LessonDir(t)), "--reward-close-after", "1s")...)
	body := `{"model":"m","messages":[{"role":"user","content":"Which day is today?"}]}`
	p.Chat(t, nil, body)
	stderr := ""
	harness.Eventually(t, "the closed session in the report", func() (found bool) {
		var out string
		out, stderr, _ = harness.RunCommand(t, "", "report", "--data-dir", data, "--admin-tokens", "e2e-token")
		return strings.Contains(out, "Sessions: 1 closed, 1 in the experiment, 0 excluded\n") && strings.Contains(out, "in the experiment: 0 treated, 0 control, 1 without a match; with a reward: 0\n")
	})
	if strings.Contains(stderr, "no closed and no open sessions") {
		t.Errorf("report on one closed session: got message %q, want a message without \"no closed and no open sessions\"", stderr)
	}
}
