package fleet

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"precept/inject/bank/banktest"
	"precept/store/storetest"
	"precept/test/harness"
)

func TestCommandsReadTheStoreInRedis(t *testing.T) {
	t.Parallel()
	server := storetest.StartRedis(t, "--requirepass", "canary-52")
	url := "redis://:canary-52@" + server.Addr + "/2"
	model := newRecordingModel(t)
	fleet := startReplicas(t, 1, url, model.URL, harness.LessonDir(t), "--bandit-objective", "all", "--reward-close-after", "1s")
	newConversation("one", named).sendTurn(t, fleet[0])
	exportedLines := func(format string) []string {
		out, err := harness.CommandOutput(t, "export", "--store-url", url, "--data-dir", t.TempDir(), "--format", format)
		if err != nil {
			return nil
		}
		return strings.Split(strings.TrimSpace(out), "\n")
	}
	fleet[0].Eventually("a sample", func() bool {
		l := exportedLines("mplp")
		return len(l) == 1 && strings.Contains(l[0], `"sample_family"`)
	})
	fleet[0].Eventually("the lesson in the exported experiment", func() bool {
		return strings.Contains(strings.Join(exportedLines("experiment"), "\n"), "check-the-target")
	})

	// Each command gets an empty data directory, as on a machine without a server.
	var r struct {
		Lessons []struct{ Slug string }
	}
	out := harness.MustRun(t, "report", "--json", "--store-url", url, "--data-dir", t.TempDir(), "--lessons", harness.LessonDir(t))
	if err := json.Unmarshal([]byte(out), &r); err != nil || len(r.Lessons) != 1 || r.Lessons[0].Slug != "check-the-target" {
		t.Errorf("report: got error %v, output %s, want the lesson check-the-target", err, out)
	}
	var d struct{ Store map[string]int64 }
	out = harness.MustRun(t, "doctor", "--json", "--store-url", url, "--data-dir", t.TempDir())
	if err := json.Unmarshal([]byte(out), &d); err != nil || d.Store["exchanges"] != 1 || d.Store["sessions"] != 1 {
		t.Errorf("doctor: got error %v, output %s, want 1 exchange and 1 session", err, out)
	}

	_, err := harness.CommandOutput(t, "export", "--store-url", strings.Replace(url, "canary", "wrong-canary", 1), "--data-dir", t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "refuses the user or the password") {
		t.Errorf("export with a wrong password: err = %v, want \"refuses the user or the password\"", err)
	}
	if text := fleet[0].Log.String(); strings.Contains(text, "canary") {
		t.Errorf("the log contains the Redis password, want no password:\n%s", text)
	}
}

func TestLessonCommandsWorkOnRedis(t *testing.T) {
	t.Parallel()
	server := storetest.StartRedis(t)
	dir := harness.LessonDir(t)
	if out := harness.MustRun(t, "lessons", "push", dir, server.URL()); !strings.Contains(out, "1 lesson pushed: 1 new") {
		t.Errorf(`lessons push = %q, want "1 lesson pushed: 1 new"`, out)
	}
	if out := harness.MustRun(t, "lessons", "push", dir, server.URL(), "--json"); !strings.Contains(out, `"lessons": 1`) || !strings.Contains(out, `"changes": []`) {
		t.Errorf("second lessons push = %s, want 1 lesson without changes", out)
	}
	if out := harness.MustRun(t, "lessons", "push", dir, "--store-url", server.URL()); !strings.Contains(out, "no changes") {
		t.Errorf(`lessons push --store-url = %q, want "no changes"`, out)
	}
	if out := harness.MustRun(t, "lessons", "list", "--lessons", server.URL()); !strings.Contains(out, "check-the-target") {
		t.Errorf(`lessons list = %q, want "check-the-target"`, out)
	}

	model := newRecordingModel(t)
	fleet := startReplicas(t, 2, server.URL(), model.URL, "redis://", "--bandit-objective", "all", "--bandit-epsilon", "0")
	newConversation("first", named).sendTurn(t, fleet[0])
	if !strings.Contains(model.lastRequest("first"), "(check-the-target)") {
		t.Errorf("request to the model = %s, want the lesson check-the-target\n%s", model.lastRequest("first"), fleet[0].Log.String())
	}
	banktest.WriteLesson(t, dir, "second-lesson", "build script")
	if err := os.WriteFile(filepath.Join(dir, "bad.md"), []byte("not a lesson"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := harness.CommandOutput(t, "lessons", "push", dir, server.URL()); err == nil || !strings.Contains(err.Error(), "changed nothing") {
		t.Errorf("push with an invalid lesson: error = %v, want \"changed nothing\"", err)
	}
	if err := os.Remove(filepath.Join(dir, "bad.md")); err != nil {
		t.Fatal(err)
	}
	harness.MustRun(t, "lessons", "push", dir, server.URL())
	for i, p := range fleet {
		attempts := 0
		p.Eventually("the second lesson", func() bool {
			attempts++
			sender := fmt.Sprint("later-", i, "-", attempts)
			newConversation(sender, named).sendTurn(t, p)
			return strings.Contains(model.lastRequest(sender), "(second-lesson)")
		})
	}

	pullDir := t.TempDir()
	harness.MustRun(t, "lessons", "pull", pullDir, server.URL())
	for _, name := range []string{"check-the-target.md", "second-lesson.md"} {
		pushed, pushErr := os.ReadFile(filepath.Join(dir, name))
		pulled, pullErr := os.ReadFile(filepath.Join(pullDir, name))
		if pushErr != nil || pullErr != nil || string(pulled) != string(pushed) {
			t.Errorf("%s: got pulled text %q (error %v), want %q (error %v)", name, pulled, pullErr, pushed, pushErr)
		}
	}
	if _, err := harness.CommandOutput(t, "lessons", "push", t.TempDir(), server.URL()); err == nil || !strings.Contains(err.Error(), "contains no lessons") {
		t.Errorf("push from an empty directory: error = %v, want \"contains no lessons\"", err)
	}
	if out := harness.MustRun(t, "lessons", "pull", t.TempDir(), server.URL()); strings.HasPrefix(out, "0 ") {
		t.Errorf("pull after a push from an empty directory = %s, want the earlier lessons", out)
	}
	if _, err := harness.CommandOutput(t, "lessons", "push", dir); err == nil || !strings.Contains(err.Error(), "redis://host:6379/0") {
		t.Errorf("push without an address: error = %v, want an example address", err)
	}
}

func TestCheckCountsTheLessonsInRedis(t *testing.T) {
	t.Parallel()
	server := storetest.StartRedis(t, "--requirepass", "canary-53")
	url := "redis://:canary-53@" + server.Addr + "/3"
	harness.MustRun(t, "lessons", "push", harness.LessonDir(t), url)
	args := []string{"--store-url", url, "--lessons", "redis://", "--data-dir", t.TempDir()}
	address := "redis://" + server.Addr + "/3"
	if out := harness.MustRun(t, append([]string{"check"}, args...)...); !strings.Contains(out, "lessons in "+address+": 1 can be read, 0 cannot\n") {
		t.Errorf("check = %s, want 1 lesson in %s", out, address)
	}
	server.Kill()
	for _, command := range [][]string{{"check"}, {"check", "--json"}, {"lessons", "list"}} {
		out, stderr, code := harness.RunCommand(t, "", append(command, args...)...)
		if all := out + stderr; code != harness.ExitFailed || strings.Contains(all, "canary") || strings.Contains(all, "can be read,") ||
			!strings.Contains(all, "the lessons in "+address+" cannot be read: ") || !strings.Contains(all, "start Redis, or correct store.url") {
			t.Errorf("%s without Redis: got exit code %d, output %s, standard error %s, want exit code %d, the Redis address, and the advice to start Redis or correct store.url", command, code, out, stderr, harness.ExitFailed)
		}
	}
}
