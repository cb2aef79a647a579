package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"precept/inject/bank"
	"precept/inject/bank/banktest"
	"precept/inject/ledger"
	"precept/inject/lesson"
)

// recordingModel is an upstream that records the body of the last request.
type recordingModel struct {
	*httptest.Server
	mu   sync.Mutex
	last string
}

func newRecordingModel(t *testing.T) *recordingModel {
	t.Helper()
	m := &recordingModel{}
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		m.mu.Lock()
		m.last = string(b)
		m.mu.Unlock()
		_, _ = io.WriteString(w, `{}`)
	}))
	t.Cleanup(m.Close)
	return m
}

// requestContains sends message in a new session of the agent, and reports whether the request that reaches the model
// contains text.
func (m *recordingModel) requestContains(s *runningServer, agent, message, text string) bool {
	s.t.Helper()
	status, answer := send(s.t, http.MethodPost, s.dataURL+"/v1/chat/completions", map[string]string{"Precept-Agent": agent},
		fmt.Sprintf(`{"messages":[{"role":"user","content":"%s, at %d"}]}`, message, time.Now().UnixNano()))
	if status != http.StatusOK {
		s.t.Fatalf("chat request: got status %d, body %q, want status 200", status, answer)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.Contains(m.last, text)
}

// lessonInjected sends a message that matches the lesson look-first in a new session, and reports whether the request
// that reaches the model contains a lesson.
func (m *recordingModel) lessonInjected(s *runningServer) bool {
	s.t.Helper()
	return m.requestContains(s, "coder", "build the targets", "End of lessons.")
}

// injectAllOptions returns extra, with options added so that the server injects every matching lesson.
func injectAllOptions(extra map[string]string) map[string]string {
	out := map[string]string{"admin.tokens": "[token]", "bandit.objective": "all", "bandit.epsilon": "0", "bandit.control": "0"}
	maps.Copy(out, extra)
	return out
}

// A lesson that an agent proposed reaches no session before it is approved, and afterwards only sessions of this agent.
func TestAgentLessonWaitsForApproval(t *testing.T) {
	m := newRecordingModel(t)
	s := startServer(t, newFlagSource(t, injectAllOptions(map[string]string{"upstream": m.URL + "/v1"})))
	adminHeader := map[string]string{"Authorization": "Bearer token", "Accept": "text/html"}
	status, body := send(t, http.MethodPost, s.dataURL+"/v1/lessons", map[string]string{"Precept-Agent": "coder"}, `{"signature":"grep-first","lesson_text":"Use grep first.","keywords":["zebra"]}`)
	var created struct{ ID, State string }
	if err := json.Unmarshal([]byte(body), &created); err != nil || status != http.StatusCreated || created.State != string(lesson.Quarantined) {
		t.Fatalf("proposal of a lesson: got status %d, body %q, error %v, want status 201, state %q, no error", status, body, err, string(lesson.Quarantined))
	}
	eventually(t, "lesson on the queue page", func() bool {
		_, page := send(t, http.MethodGet, s.adminURL+"/queue", adminHeader, "")
		return strings.Contains(page, created.ID)
	})
	if _, page := send(t, http.MethodGet, s.adminURL+"/lessons/"+created.ID, adminHeader, ""); !strings.Contains(page, "Use grep first.") || !strings.Contains(page, "End of lessons.") {
		t.Errorf("page of the proposed lesson: got %s, want the block that contains \"Use grep first.\" and \"End of lessons.\"", page)
	}
	if m.requestContains(s, "coder", "a zebra", "Use grep first.") {
		t.Error("session before the approval: got the lesson in the request, want no lesson")
	}
	act := func(action string) int {
		status, _ := send(t, http.MethodPost, s.adminURL+"/api/lessons/"+action, adminHeader, "")
		return status
	}
	if status := act("..%2Fevil/approve"); status != http.StatusNotFound {
		t.Errorf("approval with a path in place of the slug: got status %d, want 404", status)
	}
	if status := act(created.ID + "/approve"); status != http.StatusOK {
		t.Fatalf("approval of the lesson: got status %d, want 200", status)
	}
	eventually(t, "session with the lesson after the approval", func() bool { return m.requestContains(s, "coder", "a zebra", "Use grep first.") })
	if m.requestContains(s, "other", "a zebra", "Use grep first.") {
		t.Error("another agent: a session got the lesson, want none")
	}
	if status := act(created.ID + "/retire"); status != http.StatusOK {
		t.Fatalf("retirement of the lesson: got status %d, want 200", status)
	}
	eventually(t, "session without the retired lesson", func() bool { return !m.requestContains(s, "coder", "a zebra", "Use grep first.") })
	if err := s.stopAndWait(); err != nil {
		t.Error(err)
	}
}

// The ledger file, AGENT.md, lists failures in a project. precept makes a lesson from each entry. With ledger.trust:
// own, the agent named in ledger.agent gets this lesson without an approval.
func TestLedgerEntryBecomesLesson(t *testing.T) {
	for _, trust := range []string{"quarantined", "own"} {
		t.Run(trust, func(t *testing.T) {
			m, agentFile := newRecordingModel(t), &ledger.Ledger{Path: filepath.Join(t.TempDir(), "AGENT.md"), Now: time.Now}
			write := func(file, rule string) {
				t.Helper()
				e := ledger.Entry{IntentID: "ci", Type: "test", File: file, Error: "it broke", Cause: "haste", Resolution: "care", Rule: rule}
				if results, _, err := agentFile.Record(t.Context(), e); err != nil || results[0].Status != ledger.Recorded {
					t.Fatalf("Record(%s): got results %+v, error %v, want Status = %q, no error", file, results, err, ledger.Recorded)
				}
			}
			write("pkg/parser.go", "Quote the names.")
			lessons := t.TempDir()
			s := startServer(t, newFlagSource(t, injectAllOptions(map[string]string{
				"upstream": m.URL + "/v1", "lessons": lessons, "ledger.file": agentFile.Path, "ledger.trust": trust, "ledger.agent": "coder",
			})))
			lessonState := func(rule string) lesson.State {
				b, _, err := lesson.Load(lessons)
				if err != nil {
					t.Fatal(err)
				}
				for _, l := range b.Lessons() {
					if l.Title == rule {
						return l.State
					}
				}
				return ""
			}
			want := map[string]lesson.State{"quarantined": lesson.Quarantined, "own": lesson.Active}[trust]
			eventually(t, "first entry's lesson", func() bool { return lessonState("Quote the names.") == want })
			write("pkg/lexer.go", "Close the file.")
			eventually(t, "second entry's lesson", func() bool { return lessonState("Close the file.") == want })
			if trust == "own" {
				eventually(t, "lesson in a session of the agent", func() bool { return m.requestContains(s, "coder", "see pkg/parser.go", "Quote the names.") })
			}
			if m.requestContains(s, "other", "see pkg/parser.go", "Quote the names.") {
				t.Error("another agent: a session got the lesson, want none")
			}
			if trust == "quarantined" && m.requestContains(s, "coder", "see pkg/parser.go", "Quote the names.") {
				t.Error("session of the agent while the lesson is quarantined: got the lesson in the request, want no lesson")
			}
			if err := s.stopAndWait(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestCorruptDatabaseIsRenamedAndReplaced(t *testing.T) {
	source := newFlagSource(t, map[string]string{"upstream": startModel(t), "reward.close_after": "50ms"})
	path := loadConfig(t, source).StoreURL()
	garbage := strings.Repeat("this is not a database ", 500)
	if err := os.WriteFile(path, []byte(garbage), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startServer(t, source)
	if !s.console.contains("the store was damaged") {
		t.Error("log after a start with a damaged store: got no line with \"the store was damaged\", want one")
	}
	s.sendSession("coder", "s", "hello", `"type":"approval"`)
	if err := s.stopAndWait(); err != nil {
		t.Error(err)
	}
	renamed, err := filepath.Glob(path + ".corrupt-*")
	if err != nil || len(renamed) != 1 {
		t.Fatalf("renamed database files: got %q, error %v, want one file, no error", renamed, err)
	}
	if b, err := os.ReadFile(renamed[0]); err != nil || string(b) != garbage {
		t.Errorf("renamed database file: got %d bytes, error %v, want the %d bytes of the damaged database", len(b), err, len(garbage))
	}
	tools := testTools()
	db, err := tools.OpenFiltered(t.Context(), loadConfig(t, source))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // nothing was written
	if n, err := db.Stats(t.Context()); err != nil || n["exchanges"] != 1 {
		t.Errorf("Stats of the new database: got %v, error %v, want 1 exchange, no error", n, err)
	}
}

func TestBankChangesLessonsWithoutServer(t *testing.T) {
	lessons := t.TempDir()
	banktest.WriteLesson(t, lessons, "look-first", "targets")
	cfg := loadConfig(t, newFlagSource(t, map[string]string{"lessons": lessons}))
	tools := testTools()
	change := func(slug string, a lesson.Action) (bank.Result, error) {
		b, closeBank, err := tools.OpenBank(cfg)
		if err != nil {
			return bank.Result{}, err
		}
		defer closeBank()
		return b.Act(context.Background(), slug, bank.Decision{Action: a, By: "ann"})
	}
	if _, err := change("unknown", lesson.Approve); err != bank.ErrNoLesson { //nolint:errorlint // Act returns ErrNoLesson itself
		t.Errorf("approval of an unknown lesson: err = %v, want %v", err, bank.ErrNoLesson)
	}
	r, err := change("look-first", lesson.Pause)
	if err != nil || r.Lesson.State != lesson.Paused {
		t.Errorf("pause of a lesson: got %+v, error %v, want state %q, no error", r.Lesson, err, lesson.Paused)
	}
	cfg.Lessons = "redis://" // redis:// means the Redis that is the store, but the store is a file here
	if _, err := change("look-first", lesson.Approve); err == nil || !strings.Contains(err.Error(), "redis://host:6379/0") {
		t.Errorf("approval with lessons: redis:// and a store in a file: err = %v, want an error that contains redis://host:6379/0", err)
	}
}
