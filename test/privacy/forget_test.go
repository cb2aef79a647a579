package privacy

import (
	"net/http"
	"strings"
	"syscall"
	"testing"

	"precept/test/harness"
)

func TestForgetRemovesTextFromAllFiles(t *testing.T) {
	const first, second = "heliotrope-4711", "marigold-0815"
	model := harness.RepeatingServer(t, harness.ChatReply("chatcmpl-1", "It is "+first+"."), harness.ChatReply("chatcmpl-2", "It is "+second+"."))
	dir := t.TempDir()
	p := harness.Launch(t, dir, nil, "--upstream", model.URL+"/v1", "--reward-close-after", "300ms").WaitUntilReady(dir)
	sendAndRate := func(name, word string) { // sends a session with the name name-word
		t.Helper()
		body := `{"model":"m","messages":[{"role":"user","content":"Tell me about ` + word + `, please."}]}`
		p.Chat(t, http.Header{"Precept-Session": {name + "-" + word}}, body)
		p.PostFeedback(t, nil, `{"session_id":"`+name+"-"+word+`","source":"user","type":"approval","comment":"about `+word+`"}`)
	}
	sendAndRate("a", first)
	sendAndRate("b", second)
	waitForMetric := func(want string) {
		t.Helper()
		p.Eventually(want, func() bool {
			token := strings.TrimSpace(harness.Files(t, dir)["/admin-token"])
			_, text := harness.Get(t, p.AdminURL+"/metrics", token)
			return strings.Contains(text, want)
		})
	}
	waitForMetric(`precept_samples_total{outcome="sample_stored"} 2`)
	for _, word := range []string{first, second} {
		if len(harness.FilesWith(harness.Files(t, dir), word)) == 0 {
			t.Fatalf("no file contains %q before precept forget", word)
		}
	}

	out, stderr, code := harness.RunCommand(t, "", "forget", "--session", "a-"+first, "--yes", "--data-dir", dir)
	if code != 0 || !strings.Contains(out, "(1 session)") {
		t.Fatalf("forget while the server is running: got exit code %d, output %s, standard error %s, want exit code 0 and (1 session)", code, out, stderr)
	}
	if found := harness.FilesWith(harness.Files(t, dir), first); len(found) > 0 {
		t.Errorf("files with %q from the forgotten session: got %v, want none", first, found)
	}
	if len(harness.FilesWith(harness.Files(t, dir), second)) == 0 {
		t.Errorf("files with %q from the session that was not forgotten: got none, want at least one", second)
	}
	out, stderr, code = harness.RunCommand(t, "", "forget", "--session", "a-"+first, "--yes", "--json", "--data-dir", dir)
	if code != 1 || !strings.Contains(out, `"forgotten": 0`) || !strings.Contains(stderr, "the session a-"+first+" in the tenant default has no stored data") {
		t.Errorf("second forget of the same session: got exit code %d, output %s, standard error %s, want exit code 1, 0 forgotten sessions, and an error that names the session", code, out, stderr)
	}

	// If the agent continues after its session was forgotten, the next turn begins a new session, which can be
	// forgotten as well.
	sendAndRate("a", first)
	waitForMetric(`precept_samples_total{outcome="sample_stored"} 3`)
	p.Signal(syscall.SIGTERM)
	if code := p.ExitCode(); code != 0 {
		t.Fatalf("precept serve: got exit code %d, want 0\n%s", code, p.Log.String())
	}
	if out, stderr, code = harness.RunCommand(t, "no\n", "forget", "--tenant", "default", "--data-dir", dir); code == 0 || !strings.Contains(stderr, "nothing was deleted") {
		t.Errorf("forget with the answer no: got exit code %d, output %s, standard error %s, want an error and \"nothing was deleted\"", code, out, stderr)
	}
	if out, stderr, code = harness.RunCommand(t, "yes\n", "forget", "--tenant", "default", "--data-dir", dir); code != 0 || !strings.Contains(out, "(2 sessions)") {
		t.Errorf("forget without a server: got exit code %d, output %s, standard error %s, want 0 and (2 sessions)", code, out, stderr)
	}
	for _, word := range []string{first, second} {
		if found := harness.FilesWith(harness.Files(t, dir), word); len(found) > 0 {
			t.Errorf("files with %q from a forgotten session: got %v, want none", word, found)
		}
	}
	if out, _, code = harness.RunCommand(t, "", "export", "--data-dir", dir); code != 0 || out != "" {
		t.Errorf("export after forget: got exit code %d, output %s, want 0 and no output", code, out)
	}
}

func TestRunningServerDeletesOldSessions(t *testing.T) {
	const word = "cornflower-1234"
	model := harness.RepeatingServer(t, harness.ChatReply("chatcmpl-1", "It is "+word+"."))
	dir := t.TempDir()
	p := harness.Launch(t, dir, nil, "--upstream", model.URL+"/v1", "--reward-close-after", "200ms", "--learning-retention", "2s").WaitUntilReady(dir)
	p.Chat(t, nil, `{"model":"m","messages":[{"role":"user","content":"hi"}]}`)
	p.Eventually("the exchange in the files", func() bool { return len(harness.FilesWith(harness.Files(t, dir), word)) > 0 })
	p.Eventually("the exchange to be deleted from the files", func() bool { return len(harness.FilesWith(harness.Files(t, dir), word)) == 0 })
}
