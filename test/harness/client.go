package harness

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"precept/inject/bank/banktest"
)

// RepeatingServer starts a server that sends the replies in order, one for each request, and then repeats the last
// reply.
func RepeatingServer(t *testing.T, replies ...string) *httptest.Server {
	t.Helper()
	next := make(chan string, len(replies))
	for _, r := range replies[:len(replies)-1] {
		next <- r
	}
	last := replies[len(replies)-1]
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		reply := last
		select {
		case reply = <-next:
		default:
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, reply)
	}))
	t.Cleanup(s.Close)
	return s
}

// ChatReply returns a chat completion with the given text.
func ChatReply(id, text string) string {
	return fmt.Sprintf(`{"id":%q,"object":"chat.completion","model":"m","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":%q}}],"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}`, id, text)
}

// Post sends body in a POST request, and returns the status and the body of the reply. If a reply without
// Content-Length breaks off, Post returns the part that it received.
func Post(t *testing.T, url string, header http.Header, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	maps.Copy(req.Header, header)
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil && res.ContentLength >= 0 {
		t.Fatalf("POST %s: read a reply with Content-Length %d: %v", url, res.ContentLength, err)
	}
	return res.StatusCode, string(b)
}

// Files returns the content of every file under a directory. The keys are paths relative to the directory, such as
// /precept.db.
func Files(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if os.IsNotExist(err) {
				return nil // SQLite deleted the file when it checkpointed the log
			}
			return err
		}
		b, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			return nil
		}
		files[strings.TrimPrefix(path, dir)] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// FilesWith returns the paths of the files that contain text.
func FilesWith(files map[string]string, text string) (found []string) {
	for name, content := range files {
		if strings.Contains(content, text) {
			found = append(found, name)
		}
	}
	return found
}

// Get sends a GET request with an admin token ("" for none), and returns the status and the body of the reply.
func Get(t *testing.T, url, token string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

// SlowModel starts a server that streams a number every 20 ms, until the client disconnects or stop is closed.
func SlowModel(t *testing.T) (model *httptest.Server, stop chan struct{}) {
	t.Helper()
	stop = make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := 0; ; i++ {
			_, _ = fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"%d\"}}]}\n\n", i)
			_ = http.NewResponseController(w).Flush()
			select {
			case <-stop:
				_, _ = io.WriteString(w, "data: [DONE]\n\n")
				return
			case <-r.Context().Done():
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}))
	t.Cleanup(s.Close)
	return s, stop
}

// Stream starts a streamed chat completion. When the stream ends, the channel receives the error, or nil if the stream
// was complete.
func Stream(t *testing.T, baseURL string) <-chan error {
	t.Helper()
	body := strings.NewReader(`{"model":"m","stream":true,"messages":[{"role":"user","content":"count"}]}`)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, baseURL+"/v1/chat/completions", body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := res.Body.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, res.Body)
		ended <- errors.Join(err, res.Body.Close())
	}()
	return ended
}

// AlwaysInject returns flags that make precept inject each matching lesson in every session, without random decisions.
func AlwaysInject(m *Model, lessons string) []string {
	return []string{"--upstream", m.URL + "/v1", "--lessons", lessons, "--bandit-objective", "all", "--bandit-epsilon", "0", "--bandit-control", "0"}
}

// LessonDir returns a directory with the lesson check-the-target, which matches the words "build script".
func LessonDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	banktest.WriteLesson(t, dir, "check-the-target", "build script")
	return dir
}
