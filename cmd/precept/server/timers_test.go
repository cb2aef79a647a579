//go:build !race

package server_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"precept/cmd/precept/server"
	"precept/inject/bank/banktest"
	"precept/inject/lesson"
)

func TestOnlyOpenListenerWithoutKeysIsWarnedAbout(t *testing.T) {
	for name, tc := range map[string]struct {
		listen, file string
	}{
		"loopback":          {"127.0.0.1:0", ""},
		"tenancy with keys": {"0.0.0.0:0", "tenancy: keys\nkeys: [{name: ci, tenant: shop, key_sha256: " + strings.Repeat("a1", 32) + "}]\n"},
	} {
		source := newFlagSource(t, map[string]string{"listen": tc.listen})
		addConfigFile(t, source)(tc.file)
		s := startServer(t, source)
		if s.console.contains("other machines can post feedback") {
			t.Errorf("%s: got a warning that other machines need no key, want no warning", name)
		}
		if err := s.stopAndWait(); err != nil {
			t.Error(err)
		}
	}
}

// exchangeBytes sends bytes on a new connection. It returns the answer, and how long the server left the connection
// open.
func (b *bubbleServer) exchangeBytes(sent string) (answer string, openFor time.Duration) {
	b.t.Helper()
	c, err := b.network.dial(b.t.Context(), "tcp", strings.TrimPrefix(b.dataURL, "http://"))
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	start := time.Now()
	if _, err := io.WriteString(c, sent); err != nil {
		b.t.Fatal(err)
	}
	text, err := io.ReadAll(c)
	if err != nil && !errors.Is(err, net.ErrClosed) {
		b.t.Logf("the connection ended with the error %v", err)
	}
	return string(text), time.Since(start)
}

// The server closes a connection if a request is still incomplete after limits.header_timeout, or if no request arrives
// for two minutes.
func TestIdleConnectionsAreClosed(t *testing.T) {
	runInBubble(t, map[string]string{"limits.header_timeout": "7s"}, func(b *bubbleServer) {
		if answer, openFor := b.exchangeBytes("GET /healthz HTTP/1.1\r\nHost: half"); strings.Contains(answer, "200 OK") || openFor != 7*time.Second {
			b.t.Errorf("connection with half a request: got response %q, closed after %v, want no response, closed after 7s", answer, openFor)
		}
		answer, openFor := b.exchangeBytes("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if !strings.Contains(answer, "200 OK") || openFor != 120*time.Second {
			b.t.Errorf("connection with a whole request: got response %q, closed after %v, want a response with 200 OK, closed after 2m", answer, openFor)
		}
	})
}

// The server also applies a file whose content is the same as an earlier version of the file. A faulty file is reported
// in the log and changes nothing.
func TestSavedConfigurationTakesEffectWithinTwoSeconds(t *testing.T) {
	source := newFlagSource(t, nil)
	write := addConfigFile(t, source)
	write("admin: {tokens: [first]}\n")
	synctest.Test(t, func(t *testing.T) {
		b := startBubbleServer(t, source)
		accepts := func(token string) bool {
			status, _ := b.send(http.MethodGet, b.adminURL+"/api/report", "", "Authorization", "Bearer "+token)
			return status == http.StatusOK
		}
		for _, token := range []string{"second", "first", "third"} {
			advance(time.Hour)
			write("admin: {tokens: [" + token + "]}\n")
			advance(2 * time.Second)
			if !accepts(token) {
				t.Errorf("2 s after the file was saved: got token %s refused, want it accepted", token)
			}
		}
		for _, token := range []string{"first", "second"} {
			if accepts(token) {
				t.Errorf("token %s from an earlier version of the file: got it accepted, want it refused", token)
			}
		}
		write("admin: {tokens: [third]}\nlearning: {retention: never}\n")
		advance(2 * time.Second)
		if accepted, reported := accepts("third"), b.console.contains("learning.retention"); !accepted || !reported {
			t.Errorf("after a faulty file: got token \"third\" accepted = %v, learning.retention in the log = %v, want both true", accepted, reported)
		}
		if err := b.stopAndWait(); err != nil {
			t.Error(err)
		}
	})
}

func TestReloadedRetentionDeletesOldData(t *testing.T) {
	source := newFlagSource(t, injectAllOptions(map[string]string{"upstream": startClosingModel(t, "done"), "reward.close_after": "1s"}))
	write := addConfigFile(t, source)
	write("{}\n")
	synctest.Test(t, func(t *testing.T) {
		twoHoursAgo := func() time.Time { return time.Now().Add(-2 * time.Hour) }
		b := startBubbleServer(t, source, func(o *server.Options) { o.Tools.Now = twoHoursAgo })
		listedSessions := func() int {
			_, list := b.send(http.MethodGet, b.adminURL+"/api/sessions", "")
			return strings.Count(list, `"agent":"coder"`)
		}
		b.sendTurn("coder", "hello")
		advance(5 * time.Second)
		if err := b.stopAndWait(); err != nil {
			t.Error(err)
		}
		b = startBubbleServer(t, source)
		advance(5 * time.Second)
		if listedSessions() != 1 {
			t.Errorf("sessions before learning.retention is set: got %d, want 1", listedSessions())
		}
		write("learning: {retention: 1h}\n")
		advance(11 * time.Minute)
		b.sendTurn("coder", "hello again")
		advance(5 * time.Second)
		if listedSessions() != 1 {
			t.Errorf("sessions with learning.retention: 1h: got %d, want 1, the session from the last 5 s", listedSessions())
		}
		if err := b.stopAndWait(); err != nil {
			t.Error(err)
		}
	})
}

// The distiller proposes lessons only from closed sessions. A proposed lesson is quarantined until a person approves
// it.
func TestDistillerProposesFromClosedSessions(t *testing.T) {
	lessons := t.TempDir()
	proposedStates := func(t *testing.T) (states []lesson.State) {
		t.Helper()
		book, _, err := lesson.Load(lessons)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range book.Lessons() {
			states = append(states, l.State)
		}
		return states
	}
	runInBubble(t, map[string]string{
		"upstream": startClosingModel(t, "It is booked."), "lessons": lessons, "reward.close_after": "30m",
		"distill.enabled": "true", "distill.every": "1m",
	}, func(b *bubbleServer) {
		call := func(id, args string) string {
			return fmt.Sprintf(`{"role":"assistant","tool_calls":[{"id":%q,"type":"function","function":{"name":"book_room","arguments":%q}}]}`, id, args)
		}
		messages := []string{`{"role":"user","content":"Book a room for Thursday."}`}
		for _, more := range [][]string{
			{call("c1", `{"day":"Thursday"}`), `{"role":"tool","tool_call_id":"c1","content":"{\"error\":\"day must be an ISO date\"}"}`},
			{call("c2", `{"day":"2031-05-08"}`), `{"role":"tool","tool_call_id":"c2","content":"{\"ok\":true}"}`},
			nil,
		} {
			body := `{"model":"m","tools":[{"type":"function","function":{"name":"book_room","parameters":{"type":"object"}}}],"messages":[` + strings.Join(messages, ",") + `]}`
			if status, answer := b.send(http.MethodPost, b.dataURL+"/v1/chat/completions", body, "Precept-Agent", "coder", "Precept-Session", "one"); status != http.StatusOK {
				b.t.Fatalf("chat request: got status %d, body %q, want status 200", status, answer)
			}
			messages = append(messages, more...)
		}
		advance(29 * time.Minute)
		if open := proposedStates(b.t); open != nil {
			b.t.Errorf("proposals while the session is open: got %v, want none", open)
		}
		advance(5 * time.Minute)
		if closed := proposedStates(b.t); !slices.Equal(closed, []lesson.State{lesson.Quarantined}) {
			b.t.Errorf("proposals after the session is closed: got %v, want one quarantined lesson", closed)
		}
	})
}

func TestHealthCountsAreCachedForFiveSeconds(t *testing.T) {
	runInBubble(t, map[string]string{"upstream": startClosingModel(t, "done")}, func(b *bubbleServer) {
		admittedCount := func() string {
			_, health := b.send(http.MethodGet, b.adminURL+"/api/health", "")
			_, rest, _ := strings.Cut(health, `"admitted":`)
			count, _, _ := strings.Cut(rest, ",")
			return count
		}
		before := admittedCount()
		b.sendTurn("coder", "hello")
		advance(4 * time.Second)
		early := admittedCount()
		advance(2 * time.Second)
		if late := admittedCount(); before != "0" || early != "0" || late != "1" {
			b.t.Errorf("admitted requests in /api/health: got %s before the request, %s after 4 s and %s after 6 s, want 0, 0 and 1", before, early, late)
		}
	})
}

func TestWildcardListenerIsReportedWithReachableAddress(t *testing.T) {
	for _, address := range []string{"0.0.0.0:0", "[::]:0", ":0"} {
		s := startServer(t, newFlagSource(t, map[string]string{"listen": address}))
		if !strings.HasPrefix(s.dataURL, "http://127.0.0.1:") || getStatus(t, s.dataURL+"/healthz", "") != http.StatusOK {
			t.Errorf("server with listen: %q: got address %s, want a reachable address on 127.0.0.1", address, s.dataURL)
		}
		if !s.console.contains("other machines can post feedback and lessons without a key") {
			t.Errorf("server with listen: %q: got no warning that other machines need no key, want the warning", address)
		}
		if err := s.stopAndWait(); err != nil {
			t.Error(err)
		}
	}
}

func TestLessonIndexHasCurrentSessionCounts(t *testing.T) {
	lessons := t.TempDir()
	banktest.WriteLesson(t, lessons, "look-first", "targets")
	indexRow := func(b *bubbleServer) string {
		text, err := os.ReadFile(filepath.Join(lessons, "_index.md"))
		if err != nil {
			b.t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, "look-first") {
				return line
			}
		}
		return ""
	}
	runInBubble(t, map[string]string{"upstream": startClosingModel(t, "done"), "lessons": lessons, "reward.close_after": "1s"}, func(b *bubbleServer) {
		for i, score := range []int{1, 1, 0} {
			name := fmt.Sprint("s-", i)
			body := fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"build the targets, %d"}]}`, i)
			if status, answer := b.send(http.MethodPost, b.dataURL+"/v1/chat/completions", body, "Precept-Session", name); status != http.StatusOK {
				b.t.Fatalf("%s chat request: got status %d, body %q, want status 200", name, status, answer)
			}
			b.send(http.MethodPost, b.dataURL+"/v1/feedback", fmt.Sprintf(`{"session_id":%q,"source":"user","type":"score","score":%d}`, name, score))
		}
		advance(10 * time.Second)
		if status, answer := b.send(http.MethodPost, b.adminURL+"/api/lessons/look-first/trial", ""); status != http.StatusOK {
			b.t.Fatalf("start of a trial: got status %d, body %q, want status 200", status, answer)
		}
		if got := indexRow(b); !strings.Contains(got, "| 2 | 1 |") {
			b.t.Errorf("row of the lesson in _index.md: got %q, want 2 successes and 1 failure", got)
		}
	})
}
