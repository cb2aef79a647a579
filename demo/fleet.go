package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
)

// Fleet is a number of agents that know one thing of precept: their base URL. They send no session
// id.
type Fleet struct {
	World    *World
	BaseURL  string // http://host:port/v1, as OPENAI_BASE_URL would have it
	Agents   int    // at work at a time
	Sessions int    // tickets to work through
	Client   *http.Client

	done    atomic.Int64
	success atomic.Int64
}

// Done is the number of finished tickets, and how many of them went well.
func (f *Fleet) Done() (done, success int64) { return f.done.Load(), f.success.Load() }

// Run works through the tickets. It returns the first error, or ctx's.
func (f *Fleet) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan int)
	var wg sync.WaitGroup
	for range max(f.Agents, 1) { // nobody at work would leave the tickets waiting for ever
		wg.Go(func() {
			for n := range next {
				if err := f.work(ctx, n); err != nil {
					cancel(err)
				}
			}
		})
	}
	for n := 1; n <= f.Sessions && ctx.Err() == nil; n++ {
		next <- n
	}
	close(next)
	wg.Wait()
	return context.Cause(ctx)
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// work is one ticket: an agent's conversation, and what its user says of the result.
func (f *Fleet) work(ctx context.Context, n int) error {
	t := f.World.ticket(n)
	list := []message{{"system", "You are a careful engineer."}, {"user", f.World.text(t)}}
	var id, out string
	for turn := range t.turns {
		if turn == t.turns-1 {
			list = append(list, message{"user", finalMark})
		}
		var err error
		if id, out, err = f.chat(ctx, list); err != nil {
			return err
		}
		list = append(list, message{"assistant", out}, message{"user", fmt.Sprintf("Step %d is fine, go on.", turn+1)})
	}
	score := 0.0
	if strings.Contains(out, "success") {
		score = 1
		f.success.Add(1)
	}
	f.done.Add(1)
	if n%5 == 0 { // one user in five never says how it went
		return nil
	}
	_, err := f.post(ctx, "/feedback", map[string]any{"response_id": id, "source": "user", "type": "score", "score": score})
	return err
}

// chat is one turn.
func (f *Fleet) chat(ctx context.Context, list []message) (id, out string, err error) {
	b, err := f.post(ctx, "/chat/completions", map[string]any{"model": "demo", "messages": list})
	if err != nil {
		return "", "", err
	}
	var res struct {
		ID      string `json:"id"`
		Choices []struct {
			Message message `json:"message"`
		} `json:"choices"`
	}
	if err := json.Unmarshal(b, &res); err != nil || len(res.Choices) == 0 {
		return "", "", fmt.Errorf("demo: no answer in %.200s", b)
	}
	return res.ID, res.Choices[0].Message.Content, nil
}

// post sends JSON to precept's data listener.
func (f *Fleet) post(ctx context.Context, path string, v any) ([]byte, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.BaseURL+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer demo")
	res, err := f.Client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	if res.StatusCode/100 != 2 {
		return nil, fmt.Errorf("demo: %s: %s: %.200s", path, res.Status, b)
	}
	return b, nil
}
