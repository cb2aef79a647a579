package demo

import (
	"encoding/json"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func sendRequest(t *testing.T, u *Upstream, path, body string) (status int, id, text string) {
	t.Helper()
	rec := httptest.NewRecorder()
	u.ServeHTTP(rec, httptest.NewRequest(http.MethodPost, path, strings.NewReader(body)))
	var res struct {
		ID      string
		Choices []struct{ Message message }
	}
	if err := json.Unmarshal(rec.Body.Bytes(), &res); err != nil {
		t.Fatalf("decode response %s: %v", rec.Body, err)
	}
	if len(res.Choices) > 0 {
		text = res.Choices[0].Message.Content
	}
	return rec.Code, res.ID, text
}

// lastTurnBody returns the body of the last request for ticket n. The system prompt contains the lessons with the
// given slugs.
func lastTurnBody(n int, slugs ...string) string {
	system := "You are a careful engineer."
	for _, s := range slugs {
		system += "\n- [" + s + "] Do as it says."
	}
	b, _ := json.Marshal(map[string]any{"model": "demo", "messages": []message{{Role: "system", Content: system}, userMessage("Please work on " + ticketName(n) + "."), userMessage(lastTurnPhrase)}})
	return string(b)
}

func TestUpstreamRepliesToEachRequest(t *testing.T) {
	const path = "/v1/chat/completions"
	for name, tc := range map[string]struct {
		path, body string
		status     int
		text       string // text in the reply; the test does not compare the note after "Step done"
	}{
		"unsupported endpoint":       {"/v1/models", "", 404, ""},
		"no ticket":                  {path, `{"messages":[{"role":"user","content":"Hello."}]}`, 200, "Which ticket?"},
		"last turn without a ticket": {path, `{"messages":[{"role":"user","content":"` + lastTurnPhrase + `"}]}`, 200, "Which ticket?"},
		"turn before the last":       {path, `{"messages":[{"role":"user","content":"TICKET-000001"}]}`, 200, "Step done, note 86b0d1ad."},
		"one-digit ticket number":    {path, `{"messages":[{"role":"user","content":"TICKET-1"}]}`, 200, "Which ticket?"},
		"body that is not JSON":      {path, "\x00\xff", 200, "Which ticket?"},
	} {
		t.Run(name, func(t *testing.T) {
			u := NewUpstream(NewWorld(1))
			status, id, text := sendRequest(t, u, tc.path, tc.body)
			if status != tc.status || strings.HasPrefix(text, "Step done") != strings.HasPrefix(tc.text, "Step done") || (id == "") != (status != 200) {
				t.Errorf("got status %d, id %q, text %q; want status %d, an id only if the status is 200, text %q", status, id, text, tc.status, tc.text)
			}
			if !strings.HasPrefix(tc.text, "Step done") && text != tc.text {
				t.Errorf("got text %q, want %q", text, tc.text)
			}
			if s := u.Score(); s != (Score{}) {
				t.Errorf("Score() = %+v, want the zero Score, because no request is the last turn of a ticket", s)
			}
		})
	}
}

func TestUpstreamReadsLimitedBody(t *testing.T) {
	rec := httptest.NewRecorder()
	body := io.MultiReader(strings.NewReader(`"TICKET-000001`), io.LimitReader(zeros{}, 3<<20), strings.NewReader(lastTurnPhrase))
	NewUpstream(NewWorld(1)).ServeHTTP(rec, httptest.NewRequest(http.MethodPost, "/v1/chat/completions", body))
	if strings.Contains(rec.Body.String(), "RESULT") {
		t.Errorf("body with lastTurnPhrase after 3 MiB: got reply %s, want a reply without RESULT", rec.Body)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestUpstreamReplyIDsAreUnique(t *testing.T) {
	u := NewUpstream(NewWorld(1))
	seen := map[string]bool{}
	for range 2000 {
		_, id, _ := sendRequest(t, u, "/chat/completions", "{}")
		if seen[id] {
			t.Fatalf("two replies have id %s", id)
		}
		seen[id] = true
	}
}

// The simulated model learns only from the request text which lessons were injected.
func TestUpstreamSuccessRateMatchesChances(t *testing.T) {
	for name, slugs := range map[string][]string{
		"no lesson": nil, "a helpful lesson": {"reproduce-before-fixing"}, "a harmful lesson": {"restart-the-service-first"},
		"two lessons and an unknown lesson": {"read-the-failing-assertion", "never-heard-of", "pin-the-dependency"},
	} {
		t.Run(name, func(t *testing.T) {
			w := NewWorld(11)
			u := NewUpstream(w)
			var lessons []int
			for _, s := range slugs {
				if i, ok := w.bySlug[s]; ok {
					lessons = append(lessons, i)
				}
			}
			const n = 1500
			var success, expected, variance float64
			for i := 1; i <= n; i++ {
				p := w.successChance(w.ticket(i), lessons)
				expected, variance = expected+p, variance+p*(1-p)
				_, _, text := sendRequest(t, u, "/v1/chat/completions", lastTurnBody(i, slugs...))
				switch text {
				case "RESULT: success":
					success++
				case "RESULT: failure":
				default:
					t.Fatalf("ticket %d: got reply %q, want \"RESULT: success\" or \"RESULT: failure\"", i, text)
				}
			}
			if d := math.Abs(success - expected); d > 4*math.Sqrt(variance) {
				t.Errorf("got %v successes in %d tickets, want %.0f, give or take 4 standard deviations (%.1f)", success, n, expected, 4*math.Sqrt(variance))
			}
			s := u.Score()
			if math.Abs(s.WithLessons-expected/n) > 1e-9 || s.Best < s.WithoutLessons {
				t.Errorf("Score() = %+v, want WithLessons = %v and Best >= WithoutLessons", s, expected/n)
			}
		})
	}
}

func TestScoreSummary(t *testing.T) {
	for _, tc := range []struct {
		score Score
		want  string
	}{
		{Score{WithoutLessons: .5, WithLessons: .56, Best: .58}, "Without lessons, the agents would succeed in 50.0% of the sessions. With precept, they\nsucceeded in 56.0%, including the learning phase. With the helpful lessons and no others\nin every session, it would be 58.0%. precept reached 75% of the possible gain."},
		{Score{WithoutLessons: .5, WithLessons: .4, Best: .5}, "Without lessons, the agents would succeed in 50.0% of the sessions. With precept, they\nsucceeded in 40.0%, including the learning phase. With the helpful lessons and no others\nin every session, it would be 50.0%. precept reached 0% of the possible gain."},
		{NewUpstream(NewWorld(1)).Score(), "Without lessons, the agents would succeed in 0.0% of the sessions. With precept, they\nsucceeded in 0.0%, including the learning phase. With the helpful lessons and no others\nin every session, it would be 0.0%. precept reached 0% of the possible gain."},
	} {
		if got := tc.score.Summary(); got != tc.want {
			t.Errorf("%+v.Summary() = %q\nwant %q", tc.score, got, tc.want)
		}
	}
}

// The demo's messages are so short that a lesson of 40 tokens would be a large part of the cost. The usage that the
// simulated model reports therefore includes the tokens of a typical prompt.
func TestUsageIncludesTypicalPrompt(t *testing.T) {
	rec := httptest.NewRecorder()
	NewUpstream(NewWorld(1)).ServeHTTP(rec, httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(lastTurnBody(1))))
	var res struct {
		Usage struct {
			Prompt int `json:"prompt_tokens"`
		}
	}
	if err := json.Unmarshal(rec.Body.Bytes(), &res); err != nil || res.Usage.Prompt < promptTokens {
		t.Errorf("reported usage: got %d prompt tokens, error %v, want at least %d prompt tokens and no error", res.Usage.Prompt, err, promptTokens)
	}
}
