package agents

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"precept/test/harness"
)

// Half of the fifty conversations send the same requests, byte for byte. precept cannot distinguish these
// conversations, and excludes their sessions from the experiment.
func TestReportExcludesEqualConversations(t *testing.T) {
	const half = 25 // number of conversations
	var mu sync.Mutex
	blocks := map[string]int{}
	waiting, allArrived := 2*half, make(chan struct{})
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		sender := r.Header.Get("X-Who")
		mu.Lock()
		blocks[sender] += strings.Count(string(body), taskSlug)
		if waiting--; waiting == 0 {
			close(allArrived)
		}
		mu.Unlock()
		<-allArrived
		_, _ = fmt.Fprintf(w, `{"id":"chatcmpl-1","choices":[{"index":0,"finish_reason":"tool_calls","message":{"role":"assistant","content":null,"tool_calls":[{"id":"call_%d","type":"function","function":{"name":"bash","arguments":%q}}]}}]}`,
			strings.Count(string(body), `"role":"tool"`), `{"command":"cat `+sender+`"}`)
	}))
	t.Cleanup(upstream.Close)
	dir, flags := t.TempDir(), append(harness.AlwaysInject(&harness.Model{Server: upstream}, harness.LessonDir(t)), "--reward-close-after", "5s")
	p := harness.Start(t, dir, flags...)
	names := make([]string, 2*half)
	var wg, answered sync.WaitGroup
	answered.Add(2 * half)
	for i := range 2 * half {
		wg.Go(func() {
			sender := "same"
			if i >= half {
				sender = fmt.Sprint("file ", i)
			}
			messages := `{"role":"user","content":"Look at the build script"}`
			for turn := range 3 {
				if turn == 1 {
					answered.Done()
					answered.Wait()
				}
				status, reply, name := postAsSender(t, p.DataURL+"/v1/chat/completions", sender, `{"messages":[`+messages+`]}`)
				if status != http.StatusOK {
					t.Errorf("chat request from %q: got status %d, reply %s, want 200", sender, status, reply)
				}
				names[i] = name
				messages += fmt.Sprintf(`,{"role":"assistant","content":null,"tool_calls":[{"id":"call_%d","type":"function","function":{"name":"bash","arguments":%q}}]},{"role":"tool","tool_call_id":"call_%d","content":"text"}`,
					turn, `{"command":"cat `+sender+`"}`, turn)
			}
		})
	}
	wg.Wait()
	if blocks["same"] != 3*half {
		t.Errorf("blocks in the equal conversations: got %d, want %d", blocks["same"], 3*half)
	}
	for i := half; i < 2*half; i++ {
		if sender := fmt.Sprint("file ", i); blocks[sender] != 3 {
			t.Errorf("blocks in conversation %q: got %d, want 3", sender, blocks[sender])
		}
	}
	got := readCounters(t, p)
	if got["precept_sessions_total"] != 2*half || got["precept_sessions_excluded_total"] != half || got["precept_lessons_injected_total"] != 2*half {
		t.Errorf("metrics: got %d sessions, want %d; got %d excluded, want %d; got %d injected lessons, want %d", got["precept_sessions_total"], 2*half, got["precept_sessions_excluded_total"], half, got["precept_lessons_injected_total"], 2*half)
	}
	for _, name := range names {
		if status, body := harness.Post(t, p.DataURL+"/v1/feedback", http.Header{"Content-Type": {"application/json"}}, fmt.Sprintf(`{"session_id":%q,"source":"user","type":"score","score":1}`, name)); status != http.StatusAccepted {
			t.Errorf("feedback on %s: got status %d, body %s, want 202", name, status, body)
		}
	}
	waitForReport(t, p, "?provisional=true", half)
	for _, restart := range []bool{false, true} {
		if restart {
			p.Stop()
			p = harness.Start(t, dir, flags...)
		}
		const want = `"flow":{"closed":50,"in_experiment":25,"excluded":25,"excluded_by":[{"reason":"twin","sessions":25}],`
		harness.Eventually(t, "a report with "+want, func() bool {
			_, body := harness.Get(t, p.AdminURL+"/api/report", "e2e-token")
			return strings.Contains(body, want)
		})
	}
}

func postAsSender(t *testing.T, url, sender, body string) (status int, reply, session string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return
	}
	req.Header.Set("X-Who", sender)
	res, err := (&http.Client{}).Do(req)
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = res.Body.Close() }()
	read, err := io.ReadAll(res.Body)
	if err != nil {
		t.Error(err)
	}
	return res.StatusCode, string(read), res.Header.Get("Precept-Session")
}

// waitForReport waits until the report counts want sessions in which the task lesson was injected.
func waitForReport(t *testing.T, p *harness.Process, query string, want int) {
	t.Helper()
	harness.Eventually(t, fmt.Sprintf("%d sessions with the lesson in the report", want), func() bool {
		_, body := harness.Get(t, p.AdminURL+"/api/report"+query, "e2e-token")
		var rep struct {
			Lessons []struct {
				Slug     string
				Injected int `json:"n_injected"`
			}
		}
		if err := json.Unmarshal([]byte(body), &rep); err != nil {
			t.Fatal(err)
		}
		for _, l := range rep.Lessons {
			if "["+l.Slug+"]" == taskSlug {
				return l.Injected == want
			}
		}
		return false
	})
}
