package fleet

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"precept/store/storetest"
	"precept/test/harness"
)

// Each turn goes to the next replica immediately after the previous turn. This replica must insert the same lessons as
// the previous replica, so that each request to the model begins with the messages of the previous request, byte for
// byte.
func TestReplicasShareSessionsBeforeTheNextTurn(t *testing.T) {
	t.Parallel()
	server := storetest.StartRedis(t)
	model := newRecordingModel(t)
	fleet := startReplicas(t, harness.UsualOrChaos(3, 10), server.URL(), model.URL, manyLessons(t), "--limits-lookup-timeout", "10s")
	db := openStore(t, server.URL())
	injected := 0
	sessions := harness.UsualOrChaos(8, 60)
	const turns = 6
	for n := range sessions {
		identity := named
		if n%2 == 1 {
			identity = nameless
		}
		c := newConversation(fmt.Sprint("quick-", n), identity)
		before := ""
		for turn := range turns {
			c.sendTurn(t, fleet[(turn+n)%len(fleet)])
			after := model.lastRequest(c.sender)
			if turn > 0 {
				checkPrefix(t, before, after)
			}
			before = after
		}
		if strings.Contains(before, "List the targets first") {
			injected++
		}
		if identity == named {
			// The test counts exchanges and not turns, because two turns can get the same turn number on a busy
			// machine.
			harness.Eventually(t, "exchanges for all turns", func() bool {
				list, err := db.Exchanges(t.Context(), "default", sessionID(c.sender))
				return err == nil && len(list) == turns
			})
		}
	}
	if injected == 0 {
		t.Error("sessions with a lesson: got none, want at least one")
	}
	for _, p := range fleet {
		p.Stop()
	}
	stats, err := db.Stats(t.Context())
	if err != nil || stats["sessions"] != int64(sessions) || stats["exchanges"] != int64(sessions*turns) {
		t.Errorf("store: got %d sessions, %d exchanges, error %v, want %d and %d", stats["sessions"], stats["exchanges"], err, sessions, sessions*turns)
	}
}

// When the session is forgotten, one replica is down and still has the session in its outbox. It must forget the
// session when it starts again.
func TestForgetReachesAllReplicas(t *testing.T) {
	t.Parallel()
	const word, otherWord, lateWord = "heliotrope-4711", "marigold-0815", "larkspur-2718"
	server := storetest.StartRedis(t, "--rdbcompression", "no")
	var replies atomic.Int64
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if b, _ := io.ReadAll(r.Body); strings.Contains(string(b), "without end") {
			<-r.Context().Done()
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, harness.ChatReply(fmt.Sprint("chatcmpl-", replies.Add(1)), "It is said."))
	}))
	t.Cleanup(model.Close)
	dirs := []string{t.TempDir(), t.TempDir()}
	start := func(dir string) *harness.Process {
		return harness.Launch(t, dir, nil, "--upstream", model.URL+"/v1", "--store-url", server.URL()).WaitUntilReady(dir)
	}
	fleet := []*harness.Process{start(dirs[0]), start(dirs[1])}
	sendWord := func(p *harness.Process, word string) {
		t.Helper()
		body := `{"model":"m","messages":[{"role":"user","content":"Tell me about ` + word + `, please."}]}`
		p.Chat(t, http.Header{"Precept-Session": {"a-" + word}}, body)
	}
	filesWithWord := func(word string) []string {
		out := harness.FilesWith(harness.Dump(t, server), word)
		for _, dir := range dirs {
			out = append(out, harness.FilesWith(harness.Files(t, dir), word)...)
		}
		return out
	}
	forget := func(word string, wantCode int, wantError string, flags ...string) {
		t.Helper()
		out, stderr, code := harness.RunCommand(t, "", append([]string{"forget", "--yes", "--session", "a-" + word, "--data-dir", dirs[0]}, flags...)...)
		if code != wantCode || !strings.Contains(stderr, wantError) {
			t.Fatalf("precept forget: got exit code %d, output %s, standard error %s, want %d and %q", code, out, stderr, wantCode, wantError)
		}
	}
	sendWord(fleet[1], word)
	sendWord(fleet[1], otherWord)
	fleet[1].Eventually("both sessions in Redis and in the outbox", func() bool {
		return len(harness.FilesWith(harness.Dump(t, server), word)) > 0 && len(harness.FilesWith(harness.Dump(t, server), otherWord)) > 0 && len(harness.FilesWith(harness.Files(t, dirs[1]), word)) > 0
	})
	forget(word, 0, "") // without a store URL, because the running server has one
	fleet[1].Eventually("the word to be removed from Redis and all files", func() bool { return len(filesWithWord(word)) == 0 })
	if len(harness.FilesWith(harness.Dump(t, server), otherWord)) == 0 {
		t.Error("precept forget removed another session from Redis")
	}
	sendWord(fleet[1], word) // the agent can continue a forgotten session
	fleet[1].Eventually("the word to return to Redis", func() bool { return len(harness.FilesWith(harness.Dump(t, server), word)) > 0 })

	server.Freeze(t)
	sendWord(fleet[1], lateWord)
	go func() { // a request in a different session is in progress when the replica is killed
		req, _ := http.NewRequestWithContext(context.Background(), http.MethodPost, fleet[1].DataURL+"/v1/chat/completions",
			strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"Tell me `+lateWord+` without end."}]}`))
		req.Header.Set("Precept-Session", "a-"+lateWord+"-again")
		if res, err := http.DefaultClient.Do(req); err == nil {
			_ = res.Body.Close()
		}
	}()
	fleet[1].Eventually("both requests in the outbox", func() bool {
		return len(harness.FilesWith(harness.Files(t, dirs[1]), "It is said.")) > 0 && len(harness.FilesWith(harness.Files(t, dirs[1]), "a-"+lateWord+"-again")) > 0
	})
	fleet[1].Signal(syscall.SIGKILL)
	fleet[1].ExitCode()
	server.Thaw(t)
	if left := harness.FilesWith(harness.Dump(t, server), lateWord); len(left) > 0 {
		t.Fatalf("Redis keys with the session before the replica restarts: got %v, want none", left)
	}
	const undelivered = "that they have not yet written to Redis"
	forget(lateWord, 1, undelivered, "--store-url", server.URL())
	forget(lateWord+"-again", 1, undelivered, "--store-url", server.URL())
	p := start(dirs[1])
	p.Eventually("an empty outbox and 1 incomplete exchange", func() bool { d := harness.Doctor(t, dirs[1]); return d.Spooled == 0 && d.Incomplete == 1 })
	p.Eventually("the late word to be removed from Redis and all files", func() bool { return len(filesWithWord(lateWord)) == 0 })
	if len(harness.FilesWith(harness.Dump(t, server), otherWord)) == 0 {
		t.Error("precept forget removed another session from Redis")
	}
	if d := harness.Doctor(t, dirs[1]); d.Admitted != d.Stored+d.Spooled+d.Incomplete || d.Spooled != 0 {
		t.Errorf("precept doctor: got %+v, want Admitted = Stored + Spooled + Incomplete = %d, and Spooled = 0", d, d.Stored+d.Spooled+d.Incomplete)
	}
}

// A replica writes a session to Redis before the reply ends, except if a tool call in the reply contains an opted-out
// path.
func TestOptedOutSessionIsNotPublished(t *testing.T) {
	t.Parallel()
	const optedOutWord, learnedWord = "heliotrope-4711", "marigold-0815"
	server := storetest.StartRedis(t, "--rdbcompression", "no")
	model := newRecordingModel(t)
	p := startReplicas(t, 1, server.URL(), model.URL, manyLessons(t))[0]
	sendWord := func(word, path string) {
		t.Helper()
		body := `{"model":"m","messages":[{"role":"user","content":"Fix the build script, ` + word + `."},{"role":"assistant","content":null,"tool_calls":[{"id":"call-` + word +
			`","type":"function","function":{"name":"read","arguments":"{\"path\":\"` + path + `\"}"}}]},{"role":"tool","tool_call_id":"call-` + word + `","content":"A=1"}]}`
		p.Chat(t, http.Header{"Precept-Session": {word}}, body)
	}
	sendWord(optedOutWord, "config/.env")
	sendWord(learnedWord, "config/build.mk")
	p.Eventually("the learned word to reach Redis", func() bool { return len(harness.FilesWith(harness.Dump(t, server), learnedWord)) > 0 })
	p.Stop() // after it has stopped, the process has written everything
	id := sessionID(optedOutWord)
	for _, text := range []string{optedOutWord, string(id[:])} {
		if left := harness.FilesWith(harness.Dump(t, server), text); len(left) > 0 {
			t.Errorf("Redis keys with %q from the opted-out session: got %v, want none", text, left)
		}
	}
}
