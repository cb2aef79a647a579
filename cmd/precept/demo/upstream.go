package demo

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

const lastTurnPhrase = "That was the last step. Report the result."

// promptTokens is the size of a coding agent's system prompt and tools. Without these tokens, a lesson would seem
// expensive.
const promptTokens = 4000

// Upstream is the simulated model, an OpenAI-compatible chat endpoint that knows only the request text.
type Upstream struct {
	world    *World
	requests atomic.Uint64
	ticket   *regexp.Regexp
	lesson   *regexp.Regexp

	mu         sync.Mutex
	sumWith    float64 // sum of the success chances with the injected lessons
	sumWithout float64 // the same without lessons
	sumBest    float64 // the same with every matching helpful lesson
	sessions   int     // number of terms in each sum
}

// NewUpstream returns the model for the simulation w.
func NewUpstream(w *World) *Upstream {
	return &Upstream{
		world: w, ticket: regexp.MustCompile(`TICKET-(\d{6})`), lesson: regexp.MustCompile(`- \[([a-z0-9-]+)\]`),
	}
}

// ServeHTTP implements http.Handler.
func (u *Upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := u.requests.Add(1)
	// Multiplying by an odd number makes an id that is unique, but does not look sequential.
	serveChat(w, r, "demo", n*2654435761&0xffffffff, func(body []byte) message {
		if text := string(body); strings.Contains(text, loopTicketPrefix) {
			return loopReply(text, n)
		}
		return u.answer(string(body), n)
	})
}

// serveChat responds to a chat completion. name is part of the response id, and the default model name.
func serveChat(w http.ResponseWriter, r *http.Request, name string, id uint64, reply func(body []byte) message) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil || !strings.HasSuffix(r.URL.Path, "/chat/completions") {
		http.Error(w, `{"error":{"message":"the demo's model speaks chat completions only"}}`, http.StatusNotFound)
		return
	}
	m, finishReason := reply(body), "stop"
	if len(m.ToolCalls) > 0 {
		finishReason = "tool_calls"
	}
	var req struct {
		Model string `json:"model"`
	}
	_ = json.Unmarshal(body, &req)
	promptCount, replyCount := promptTokens+len(body)/4, len(m.Content)/4
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"id": fmt.Sprintf("chatcmpl-%s%08x", name, id), "object": "chat.completion", "model": cmp.Or(req.Model, name),
		"choices": []any{map[string]any{"index": 0, "finish_reason": finishReason, "message": m}},
		"usage":   map[string]any{"prompt_tokens": promptCount, "completion_tokens": replyCount, "total_tokens": promptCount + replyCount},
	})
}

// answer returns the ticket's result after lastTurnPhrase. In earlier turns, it returns a call that installs a
// dependency, or a note.
func (u *Upstream) answer(body string, n uint64) message {
	reply := func(text string) message { return message{Role: "assistant", Content: text} }
	m := u.ticket.FindStringSubmatch(body)
	if m == nil {
		return reply("Which ticket?")
	}
	num, err := strconv.Atoi(m[1])
	if err != nil {
		return reply("Which ticket?")
	}
	t := u.world.ticket(num)
	var lessons []int
	for _, f := range u.lesson.FindAllStringSubmatch(body, -1) {
		if i, ok := u.world.bySlug[f[1]]; ok {
			lessons = append(lessons, i)
		}
	}
	if !strings.Contains(body, lastTurnPhrase) {
		if arguments, ok := u.world.installCommand(t, lessons); ok && strings.Contains(body, `"tools":`) {
			return toolCall("bash", arguments, n)
		}
		return reply(fmt.Sprintf("Step done, note %08x.", n*2246822519&0xffffffff))
	}
	u.addScore(t, lessons)
	if u.world.succeeds(t, lessons) {
		return reply("RESULT: success")
	}
	return reply("RESULT: failure")
}

func (u *Upstream) addScore(t ticket, lessons []int) {
	var helpful []int
	for _, l := range t.lessons {
		if u.world.Truths[l].Effect > 0 {
			helpful = append(helpful, l)
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.sessions++
	u.sumWith += u.world.successChance(t, lessons)
	u.sumWithout += u.world.successChance(t, nil)
	u.sumBest += u.world.successChance(t, helpful)
}

// Score holds mean success chances: with the injected lessons, without lessons, and with every matching helpful lesson.
type Score struct{ WithLessons, WithoutLessons, Best float64 }

// Score returns the score for the sessions so far.
func (u *Upstream) Score() Score {
	u.mu.Lock()
	defer u.mu.Unlock()
	n := max(float64(u.sessions), 1)
	return Score{WithLessons: u.sumWith / n, WithoutLessons: u.sumWithout / n, Best: u.sumBest / n}
}

// Summary returns the score as sentences.
func (s Score) Summary() string {
	gain, room := s.WithLessons-s.WithoutLessons, s.Best-s.WithoutLessons
	share := 0.0
	if room > 0 {
		share = 100 * gain / room
	}
	return fmt.Sprintf("Without lessons, the agents would succeed in %.1f%% of the sessions. With precept, they\n"+
		"succeeded in %.1f%%, including the learning phase. With the helpful lessons and no others\n"+
		"in every session, it would be %.1f%%. precept reached %.0f%% of the possible gain.",
		100*s.WithoutLessons, 100*s.WithLessons, 100*s.Best, share)
}
