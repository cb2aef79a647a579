package fleet

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"precept/bandit/trial"
	"precept/inject/bank/banktest"
	"precept/internal/session"
	"precept/store/redis"
	"precept/store/storetest"
	"precept/test/harness"
)

// recordingModel answers each request with a tool call. It records the requests of each sender, named in the X-Who
// header.
type recordingModel struct {
	*httptest.Server
	mu         sync.Mutex
	requests   map[string][]string
	replyCount int
}

func newRecordingModel(t *testing.T) *recordingModel {
	t.Helper()
	s := &recordingModel{requests: map[string][]string{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.replyCount++
		n := s.replyCount
		sender := r.Header.Get("X-Who")
		s.requests[sender] = append(s.requests[sender], string(b))
		s.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"id":"chatcmpl-%d","object":"chat.completion","choices":[{"index":0,"finish_reason":"tool_calls","message":{"role":"assistant","content":"","tool_calls":[{"id":"call_%032x","type":"function","function":{"name":"ls","arguments":"{\"n\":%d}"}}]}}],"usage":{"prompt_tokens":100,"completion_tokens":10,"total_tokens":110}}`, n, uint64(n)*0x9e3779b97f4a7c15, n)
	}))
	t.Cleanup(s.Close)
	return s
}

func (m *recordingModel) lastRequest(sender string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := m.requests[sender]
	return list[len(list)-1]
}

// identity says how precept recognises the session of a conversation.
type identity int

const (
	named    identity = iota // by the Precept-Session header
	nameless                 // by the tool-call ids in the history
)

// conversation is an agent that sends the whole history with every turn.
type conversation struct {
	sender   string
	identity identity
	messages []any
	turns    int
}

func newConversation(sender string, identity identity) *conversation {
	return &conversation{sender: sender, identity: identity, messages: []any{map[string]any{"role": "user", "content": "run the build script of " + sender}}}
}

// sendTurn sends the history to a replica, and appends the reply and a tool result to the history.
func (c *conversation) sendTurn(t *testing.T, p *harness.Process) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"model": "m", "messages": c.messages, "tools": []any{map[string]any{"type": "function", "function": map[string]any{"name": "ls"}}}})
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.DataURL+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Who", c.sender)
	req.Header.Set("Authorization", fmt.Sprint("Bearer token-", c.turns/2)) // a new token every second turn
	if c.identity == named {
		req.Header.Set("Precept-Session", c.sender)
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	var reply struct {
		Choices []struct {
			Message map[string]any `json:"message"`
		} `json:"choices"`
	}
	if err := json.NewDecoder(res.Body).Decode(&reply); err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("chat request from %s: got status %d, error %v, want 200 and JSON", c.sender, res.StatusCode, err)
	}
	msg := reply.Choices[0].Message
	call := msg["tool_calls"].([]any)[0].(map[string]any)
	c.messages = append(c.messages, msg, map[string]any{"role": "tool", "tool_call_id": call["id"], "content": "a.txt " + c.sender})
	c.turns++
}

// startReplicas starts n replicas on one Redis. By default, half of the picked lessons are withheld, and no session
// is a control session.
func startReplicas(t *testing.T, n int, redisURL, upstream, lessons string, extraFlags ...string) (list []*harness.Process) {
	t.Helper()
	flags := append([]string{
		"--upstream", upstream + "/v1", "--lessons", lessons, "--store-url", redisURL, "--bandit-epsilon", "0.5", "--bandit-control", "0", "--inject-k", "3",
	}, extraFlags...)
	for range n {
		dir := t.TempDir()
		list = append(list, harness.Launch(t, dir, []string{"PRECEPT_ADMIN_TOKEN=token"}, flags...).WaitUntilReady(dir))
	}
	return list
}

// manyLessons returns a directory with 8 lessons that match the words "build script".
func manyLessons(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for i := range 8 {
		banktest.WriteLesson(t, dir, fmt.Sprint("lesson-", i), "build script")
	}
	return dir
}

// waitForTurn waits until the session's record in Redis has at least the given number of answered turns, and returns
// the record.
func waitForTurn(t *testing.T, s *redis.Store, id session.ID, turns int) *session.Record {
	t.Helper()
	var rec *session.Record
	harness.Eventually(t, fmt.Sprint("the session in Redis with turn ", turns), func() bool {
		row, ok, err := s.Session(t.Context(), "default", id)
		if err != nil || !ok {
			return false
		}
		rec, err = session.Decode(id, row.Data)
		return err == nil && rec.Thread.Turns >= turns && rec.Thread.Replied
	})
	return rec
}

func sessionID(name string) session.ID {
	return session.NamedID("default", session.NamespaceSession, name)
}

func openStore(t *testing.T, url string) *redis.Store {
	t.Helper()
	s, err := redis.Open(redis.Options{URL: url, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// checkPrefix checks that the newer request begins with the older request's messages, byte for byte.
func checkPrefix(t *testing.T, older, newer string) {
	t.Helper()
	messages := func(body string) []json.RawMessage {
		var v struct {
			Messages []json.RawMessage `json:"messages"`
		}
		if err := json.Unmarshal([]byte(body), &v); err != nil {
			t.Fatal(err)
		}
		return v.Messages
	}
	olderMessages, newerMessages := messages(older), messages(newer)
	if len(newerMessages) <= len(olderMessages) {
		t.Fatalf("newest request: got %d messages, want more than the previous request's %d", len(newerMessages), len(olderMessages))
	}
	for i := range olderMessages {
		if !bytes.Equal(olderMessages[i], newerMessages[i]) {
			t.Errorf("message %d in the newest request: got\n%s\nwant the previous request's message\n%s", i, newerMessages[i], olderMessages[i])
		}
	}
}

// countLookups returns how many of the Redis commands look up a session by its id or by a tool-call id.
func countLookups(lines []string) (n int) {
	for _, l := range lines {
		row := strings.Contains(l, `"hmget"`) && strings.Contains(l, `:s:`) && strings.HasSuffix(l, `"h" "d" "i"`)
		echo := strings.Contains(l, `"hget"`) && strings.Contains(l, `:e:`)
		if row || echo {
			n++
		}
	}
	return n
}

func TestReplicasContinueEachOthersSessions(t *testing.T) {
	t.Parallel()
	server := storetest.StartRedis(t)
	model := newRecordingModel(t)
	fleet := startReplicas(t, 3, server.URL(), model.URL, manyLessons(t), "--limits-lookup-timeout", "10s") // a busy machine must not fail the test
	db := openStore(t, server.URL())
	injected := 0
	for n := range 4 {
		// Half of the picked lessons are withheld at random, so it is very unlikely that none of the 4 sessions gets a
		// lesson.
		c := newConversation(fmt.Sprint("talk-", n), named)
		id := sessionID(c.sender)
		var first *session.Record
		before := ""
		for i, replica := range []int{0, 1, 2, 1, 0, 2, 2, 0} {
			c.sendTurn(t, fleet[(replica+n)%3])
			rec := waitForTurn(t, db, id, c.turns)
			after := model.lastRequest(c.sender)
			if first == nil {
				first = rec
			} else {
				checkPrefix(t, before, after)
			}
			if rec.Thread.Turns != i+1 || fmt.Sprint(rec.Assignment.Picks) != fmt.Sprint(first.Assignment.Picks) || rec.Assignment.Excluded {
				t.Errorf("after turn %d: got %d turns, picks %v, Excluded %v; want %d turns, the picks of the first turn, %v, and Excluded false",
					i+1, rec.Thread.Turns, rec.Assignment.Picks, rec.Assignment.Excluded, i+1, first.Assignment.Picks)
			}
			before = after
		}
		if strings.Contains(before, "List the targets first") {
			injected++
		}
	}
	if injected == 0 {
		t.Error("sessions with a lesson: got none, want at least one")
	}
}

func TestReplicaLooksUpOnlySessionsNotInMemory(t *testing.T) {
	t.Parallel()
	server := storetest.StartRedis(t)
	fleet := startReplicas(t, 3, server.URL(), newRecordingModel(t).URL, manyLessons(t), "--limits-lookup-timeout", "10s") // a busy machine must not fail the test
	db := openStore(t, server.URL())
	c := newConversation("nameless", nameless)
	c.sendTurn(t, fleet[2])
	c.sendTurn(t, fleet[2])
	stop := server.Monitor(t)
	for range 6 {
		c.sendTurn(t, fleet[2])
	}
	if n := countLookups(stop()); n != 0 {
		t.Errorf("look-ups in Redis, 6 turns of a nameless session on one replica: got %d, want 0", n)
	}

	pinned := newConversation("pinned", named)
	pinned.sendTurn(t, fleet[0])
	waitForTurn(t, db, sessionID(pinned.sender), 1)
	stop = server.Monitor(t)
	for range 12 {
		pinned.sendTurn(t, fleet[0])
	}
	if n := countLookups(stop()); n != 0 {
		t.Errorf("look-ups in Redis, 12 turns on one replica: got %d, want 0", n)
	}
	waitForTurn(t, db, sessionID(pinned.sender), 13)
	stop = server.Monitor(t)
	pinned.sendTurn(t, fleet[1])
	if n := countLookups(stop()); n != 1 {
		t.Errorf("look-ups in Redis, first turn on a different replica: got %d, want 1", n)
	}
}

// Without a session name, the tool-call ids in the history identify the session.
func TestReplicasRecogniseUnnamedSessions(t *testing.T) {
	t.Parallel()
	server := storetest.StartRedis(t)
	model := newRecordingModel(t)
	fleet := startReplicas(t, 2, server.URL(), model.URL, manyLessons(t), "--limits-lookup-timeout", "10s") // a busy machine must not fail the test
	db := openStore(t, server.URL())
	c := newConversation("nameless", nameless)
	before := ""
	for i := range 6 {
		c.sendTurn(t, fleet[i%2])
		var found []session.ListedSession
		harness.Eventually(t, "a session in Redis", func() bool {
			page, err := db.ListSessions(t.Context(), "default", session.ListRange{Limit: 10})
			found = page.List
			return err == nil && len(found) > 0
		})
		if len(found) != 1 {
			t.Fatalf("turn %d: got %d sessions, want 1", i+1, len(found))
		}
		waitForTurn(t, db, found[0].Row.ID, i+1)
		// The replica writes the tool-call ids of a reply to Redis together with the exchange, at the next flush.
		harness.Eventually(t, fmt.Sprint("stored exchanges: ", i+1), func() bool {
			m, err := db.Stats(t.Context())
			return err == nil && m["exchanges"] == int64(i+1)
		})
		if before != "" {
			checkPrefix(t, before, model.lastRequest(c.sender))
		}
		before = model.lastRequest(c.sender)
	}
}

// While Redis is frozen, a session that moves to a different replica continues without lessons.
func TestReplicasAnswerWhileRedisIsFrozen(t *testing.T) {
	t.Parallel()
	server := storetest.StartRedis(t)
	model := newRecordingModel(t)
	fleet := startReplicas(t, 2, server.URL(), model.URL, harness.LessonDir(t), "--bandit-objective", "all", "--bandit-epsilon", "0")
	db := openStore(t, server.URL())
	pinned, moved, unnamed := newConversation("pinned", named), newConversation("moved", named), newConversation("nameless", nameless)
	pinned.sendTurn(t, fleet[0])
	moved.sendTurn(t, fleet[0])
	unnamed.sendTurn(t, fleet[0])
	waitForTurn(t, db, sessionID("pinned"), 1)
	waitForTurn(t, db, sessionID("moved"), 1)
	harness.Eventually(t, "3 exchanges", func() bool {
		m, err := db.Stats(t.Context())
		return err == nil && m["exchanges"] == 3
	})
	server.Freeze(t)
	for range 20 {
		pinned.sendTurn(t, fleet[0])
	}
	moved.sendTurn(t, fleet[1])
	unnamed.sendTurn(t, fleet[1])
	for i, late := range []int{0, 2} { // only sessions that moved to the second replica needed a look-up
		want := fmt.Sprintf(`precept_sessions_excluded_total{reason="late"} %d`, late)
		if _, metrics := harness.Get(t, fleet[i].AdminURL+"/metrics", "token"); !strings.Contains(metrics, want+"\n") {
			t.Errorf("/metrics of replica %d lacks %q", i, want)
		}
	}
	server.Thaw(t)
	const lesson = "List the targets first"
	if !strings.Contains(model.lastRequest("pinned"), lesson) {
		t.Error("session that stayed on one replica: got no lesson, want the lesson from before Redis was frozen")
	}
	for _, name := range []string{"moved", "nameless"} {
		if strings.Contains(model.lastRequest(name), lesson) {
			t.Errorf("session %s, whose look-up timed out: got a lesson, want none", name)
		}
	}
	harness.Eventually(t, "25 exchanges, each stored once", func() bool {
		m, err := db.Stats(t.Context())
		return err == nil && m["exchanges"] == 25 && m["exchanges_ever"] == 25
	})
	// While Redis was frozen, the second replica could not find the nameless session, and began a new session (the
	// stand-in) for the conversation.
	p := fleet[1]
	p.Eventually("the lesson in the moved session", func() bool { moved.sendTurn(t, p); return strings.Contains(model.lastRequest("moved"), lesson) })
	p.Eventually("the lesson in the nameless session, once", func() bool {
		unnamed.sendTurn(t, p)
		return strings.Count(model.lastRequest("nameless"), lesson) == 1
	})
	rec := waitForTurn(t, db, sessionID("moved"), 2)
	if rec.State.StartedOffline || !rec.Assignment.Excluded || rec.Assignment.ExcludedFor != trial.ExcludedLate || len(rec.Lessons.Blocks) != 1 {
		t.Errorf("record of the moved session: got StartedOffline %v, Excluded %v for reason %q, %d blocks; want false, true for %q, and 1 block",
			rec.State.StartedOffline, rec.Assignment.Excluded, rec.Assignment.ExcludedFor, len(rec.Lessons.Blocks), trial.ExcludedLate)
	}
	lateRecords := func() (n int) {
		rows, err := db.DueSessions(t.Context(), time.Now().Add(time.Hour), session.Row{}, 100)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			if rec, err := session.Decode(row.ID, row.Data); err == nil && rec.Assignment.ExcludedFor == trial.ExcludedLate {
				n++
			}
		}
		return n
	}
	p.Eventually("3 records for sessions excluded by a late look-up: moved, nameless and the stand-in", func() bool { return lateRecords() == 3 })
	for _, p := range fleet {
		if lines := strings.Count(p.Log.String(), "level=WARN") + strings.Count(p.Log.String(), "level=ERROR"); lines > 10 {
			t.Errorf("warnings and errors in the log: got %d, want at most 10:\n%s", lines, p.Log.String())
		}
	}
}

// Any replica can close a session, but each session must be counted only once.
func TestEveryReplicaReportsAllSessions(t *testing.T) {
	t.Parallel()
	server := storetest.StartRedis(t)
	model := newRecordingModel(t)
	fleet := startReplicas(t, 3, server.URL(), model.URL, harness.LessonDir(t), "--bandit-objective", "all", "--reward-close-after", "2s")
	const sessions = 24
	for n := range sessions {
		c := newConversation(fmt.Sprint("s", n), named)
		c.sendTurn(t, fleet[n%3])
		fleet[(n+1)%3].PostFeedback(t, nil, fmt.Sprintf(`{"session_id":%q,"source":"user","type":"score","score":%d}`, c.sender, n%2))
	}
	countedSessions := func(p *harness.Process) (n int) {
		status, body := harness.Get(t, p.AdminURL+"/api/report", "token")
		var r struct {
			Lessons []struct {
				Injected int `json:"n_injected"`
				Withheld int `json:"n_withheld"`
			} `json:"lessons"`
		}
		if status != http.StatusOK || json.Unmarshal([]byte(body), &r) != nil || len(r.Lessons) != 1 {
			return -1
		}
		return r.Lessons[0].Injected + r.Lessons[0].Withheld
	}
	// On a slow machine, a look-up can time out. precept then excludes the session from the experiment.
	db, want := openStore(t, server.URL()), 0
	harness.Eventually(t, fmt.Sprint("rewarded sessions: ", sessions), func() bool {
		rewarded := 0
		want = 0
		err := db.EachSession(t.Context(), "default", time.Time{}, time.Time{}, func(r session.Row, a session.SettledState) error {
			rec, err := session.Decode(r.ID, r.Data)
			if err == nil && a.Rewarded {
				rewarded++
				if !rec.Assignment.Excluded {
					want++
				}
			}
			return err
		})
		return err == nil && rewarded == sessions
	})
	if want < sessions/2 {
		t.Fatalf("sessions in the experiment: got %d of %d, want at least half", want, sessions)
	}
	for i, p := range fleet {
		p.Eventually(fmt.Sprintf("replica %d to count %d sessions", i, want), func() bool {
			return countedSessions(p) == want
		})
	}
}

// The random decisions about lessons depend on a salt, which is stored in Redis. Redis is down when the replica starts.
// A replica that has run before has a copy of the salt in the data directory, and does not need Redis to decide.
func TestReplicaWithoutSaltInjectsNothing(t *testing.T) {
	t.Parallel()
	server := storetest.StartRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	server.Kill()
	model := newRecordingModel(t)
	flags := append([]string{"--upstream", model.URL + "/v1", "--lessons", harness.LessonDir(t), "--bandit-objective", "all", "--bandit-epsilon", "0", "--bandit-control", "0"}, "--store-url", server.URL())
	dir := t.TempDir()
	p := harness.Launch(t, dir, nil, flags...).WaitUntilReady(dir)
	if _, body := harness.Get(t, p.DataURL+"/readyz", ""); !strings.Contains(body, "degraded") {
		t.Errorf("/readyz without a store: got body %q, want a body with degraded", body)
	}
	const lesson = "List the targets first"
	newSessionGetsLesson := func(p *harness.Process, sender string, identity identity) bool {
		t.Helper()
		newConversation(sender, identity).sendTurn(t, p)
		return strings.Contains(model.lastRequest(sender), lesson)
	}
	if newSessionGetsLesson(p, "early", named) {
		t.Error("session before the replica has the salt: got a lesson, want none")
	}
	p.Eventually("/readyz to report degraded", func() bool {
		_, body := harness.Get(t, p.DataURL+"/readyz", "")
		return strings.Contains(body, "degraded")
	})
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	attempts := 0
	p.Eventually("a lesson after Redis starts", func() bool { attempts++; return newSessionGetsLesson(p, fmt.Sprint("later-", attempts), named) })
	db := openStore(t, server.URL())
	p.Eventually("the session that began without Redis", func() bool {
		_, ok, err := db.Session(t.Context(), "default", sessionID("early"))
		return ok && err == nil
	})
	p.Signal(syscall.SIGTERM)
	if code := p.ExitCode(); code != 0 {
		t.Errorf("replica after SIGTERM: got exit code %d, want 0\n%s", code, p.Log.String())
	}
	server.Kill()
	// The copy of the salt stays valid if the password in the Redis URL changes.
	flags[len(flags)-1] = strings.Replace(server.URL(), "redis://", "redis://:new@", 1)
	p = harness.Launch(t, dir, nil, flags...).WaitUntilReady(dir)
	// Redis may already contain decisions for a named session, and the replica cannot read them while Redis is down. A
	// nameless request without history begins a new session, so the replica can decide.
	if !newSessionGetsLesson(p, "with a copy", nameless) {
		t.Errorf("new session on a replica with a copy of the salt: got no lesson, want one\n%s", p.Log.String())
	}
}

func TestTurnsOfAMovingSessionAreCountedOnce(t *testing.T) {
	t.Parallel()
	server := storetest.StartRedis(t)
	model := newRecordingModel(t)
	fleet := startReplicas(t, 3, server.URL(), model.URL, manyLessons(t), "--limits-lookup-timeout", "10s")
	db := openStore(t, server.URL())
	routes := [][]int{{0, 0, 1, 1, 2, 2}, {1, 1, 1, 2, 2, 0}, {2, 2, 0, 1, 1, 0}, {0, 1, 1, 2, 2, 1}} // number of the replica that gets each turn
	var conversations sync.WaitGroup
	for n, route := range routes {
		conversations.Go(func() {
			c := newConversation(fmt.Sprint("moving-", n), named)
			for _, replica := range route {
				c.sendTurn(t, fleet[replica])
				time.Sleep(150 * time.Millisecond) //nolint:forbidigo // the agent runs a tool
			}
		})
	}
	conversations.Wait()
	for n, route := range routes {
		id := sessionID(fmt.Sprint("moving-", n))
		rec := waitForTurn(t, db, id, len(route))
		want := int64(len(route))
		if rec.Thread.Turns != len(route) || rec.Thread.Totals.Turns != want || rec.Thread.Totals.Tokens != 110*want || rec.Thread.Used.Input != 100*want {
			t.Errorf("route %v: got %d turns, %d turns in total, %d tokens and %d input tokens, want %d, %d, %d and %d", route,
				rec.Thread.Turns, rec.Thread.Totals.Turns, rec.Thread.Totals.Tokens, rec.Thread.Used.Input, want, want, 110*want, 100*want)
		}
	}
}
