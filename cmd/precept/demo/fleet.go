package demo

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
)

// Fleet is a group of simulated agents. Their only setting for precept is the base URL.
type Fleet struct {
	World    *World
	BaseURL  string // http://host:port/v1, as in OPENAI_BASE_URL
	Agents   int
	Sessions int
	Client   *http.Client
	Key      string // credential; "" means demo

	done    atomic.Int64
	success atomic.Int64
	loops   struct{ stoppedAgents, calls atomic.Int64 }
}

// Done counts the finished and the successful tickets.
func (f *Fleet) Done() (done, success int64) { return f.done.Load(), f.success.Load() }

// Run works through the tickets.
func (f *Fleet) Run(ctx context.Context) error {
	return inParallel(ctx, f.Agents, 1, f.Sessions, func(ctx context.Context, n int) error {
		err := f.workOnTicket(ctx, n)
		if n%loopTicketInterval == loopTicketInterval/2 {
			err = errors.Join(err, f.runLoopingAgent(ctx, n))
		}
		return err
	})
}

// inParallel calls work for each number from first to last. After the first error, or when ctx ends, no further call is
// started.
func inParallel(ctx context.Context, agents, first, last int, work func(ctx context.Context, n int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	numbers := make(chan int)
	var wg sync.WaitGroup
	for range max(agents, 1) { // without an agent, sending to numbers would block
		wg.Go(func() {
			for n := range numbers {
				if err := work(ctx, n); err != nil {
					cancel(err)
				}
			}
		})
	}
	for n := first; n <= last && ctx.Err() == nil; n++ {
		numbers <- n
	}
	close(numbers)
	wg.Wait()
	return context.Cause(ctx)
}

// workOnTicket plays one agent's conversation and the user's feedback.
func (f *Fleet) workOnTicket(ctx context.Context, n int) error {
	t := f.World.ticket(n)
	list := []message{{Role: "system", Content: "You are a careful engineer."}, userMessage(f.World.ticketText(t))}
	var id string
	var m message
	for turn := range t.turns {
		if turn == t.turns-1 {
			list = append(list, userMessage(lastTurnPhrase))
		}
		var err error
		if id, m, err = f.chat(ctx, t.agent, t.model, list, "bash"); err != nil {
			return err
		}
		list = append(list, m)
		for i := range m.ToolCalls {
			list = append(list, message{Role: "tool", ToolCallID: m.ToolCalls[i].ID, Content: installResult(&m.ToolCalls[i])})
		}
		list = append(list, userMessage(fmt.Sprintf("Step %d is fine, go on.", turn+1)))
	}
	good := succeeded(m)
	if good {
		f.success.Add(1)
	}
	f.done.Add(1)
	if n%5 == 0 { // one user in five is silent
		return nil
	}
	return f.rate(ctx, id, good)
}

func (f *Fleet) rate(ctx context.Context, id string, good bool) error {
	score := 0.0
	if good {
		score = 1
	}
	_, err := f.post(ctx, "/feedback", "", map[string]any{"response_id": id, "source": "user", "type": "score", "score": score})
	return err
}

// chat sends one request with the User-Agent agent.
func (f *Fleet) chat(ctx context.Context, agent, model string, list []message, tools ...string) (id string, m message, err error) {
	body := map[string]any{"model": model, "messages": list}
	for _, name := range tools {
		object := map[string]any{"type": "object"}
		body["tools"] = []any{map[string]any{
			"type": "function", "function": map[string]any{"name": name, "parameters": object},
		}}
	}
	b, err := f.post(ctx, "/chat/completions", agent, body)
	if err != nil {
		return "", message{}, err
	}
	var res struct {
		ID      string `json:"id"`
		Choices []struct {
			Message message `json:"message"`
		} `json:"choices"`
	}
	if err := json.Unmarshal(b, &res); err != nil || len(res.Choices) == 0 {
		return "", message{}, fmt.Errorf("demo: no answer in %.200s", b)
	}
	return res.ID, res.Choices[0].Message, nil
}

// post sends v as JSON. A status other than 2xx is an error.
func (f *Fleet) post(ctx context.Context, path, agent string, v any) ([]byte, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.BaseURL+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if agent != "" {
		req.Header.Set("User-Agent", agent)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+cmp.Or(f.Key, "demo"))
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
