package main

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What the tests of keeping, opting out and forgetting have in common: a model that says what it is
// told to, a client, and a look into every file.

// parrot answers chat requests with the next of the texts, as JSON; with the last one when there is
// no next.
func parrot(t *testing.T, replies ...string) *httptest.Server {
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

// said is a chat completion of a text.
func said(id, text string) string {
	return fmt.Sprintf(`{"id":%q,"object":"chat.completion","model":"m","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":%q}}],"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}`, id, text)
}

// post sends a body and reads the whole answer.
func post(t *testing.T, url string, header http.Header, body string) (int, string) {
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
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

// files reads every file under a directory.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if os.IsNotExist(err) {
				return nil // a log that was folded in meanwhile
			}
			return err
		}
		b, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			return nil
		}
		all[strings.TrimPrefix(path, dir)] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// where names the files in which a text stands.
func where(all map[string]string, text string) (found []string) {
	for name, content := range all {
		if strings.Contains(content, text) {
			found = append(found, name)
		}
	}
	return found
}

// verb runs one command line of precept to its end.
func verb(t *testing.T, stdin string, args ...string) (out, complaints string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "precept", args...)
	cmd.Env = append(os.Environ(), "OPENAI_BASE_URL=")
	cmd.Dir = t.TempDir()
	cmd.Stdin = strings.NewReader(stdin)
	var o, e strings.Builder
	cmd.Stdout, cmd.Stderr = &o, &e
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return o.String(), e.String(), cmd.ProcessState.ExitCode()
}
