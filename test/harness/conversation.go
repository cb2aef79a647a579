package harness

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

// Conversation is an agent that sends the whole history with each turn.
type Conversation struct {
	T                *testing.T
	BaseURL, Dialect string // Dialect is "chat", "responses" or "messages"
	Messages         []map[string]any
	Header           map[string]string
}

// User adds a user message to the history.
func (c *Conversation) User(text string) {
	c.Messages = append(c.Messages, map[string]any{"role": "user", "content": text})
}

// Assistant adds an assistant message to the history.
func (c *Conversation) Assistant(text string) {
	c.Messages = append(c.Messages, map[string]any{"role": "assistant", "content": text})
}

// Send sends the history, and fails the test unless the reply has status 200.
func (c *Conversation) Send(stream bool) {
	c.T.Helper()
	body := map[string]any{"model": "m", "stream": stream, "messages": c.Messages, "max_tokens": 50}
	if c.Dialect == "responses" {
		body = map[string]any{"model": "m", "stream": stream, "input": c.Messages}
	}
	text, _ := json.Marshal(body)
	path := map[string]string{"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}[c.Dialect]
	req, err := http.NewRequestWithContext(c.T.Context(), http.MethodPost, c.BaseURL+path, strings.NewReader(string(text)))
	if err != nil {
		c.T.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer sk-one")
	req.Header.Set("Precept-Agent", "coder")
	for k, v := range c.Header {
		req.Header.Set(k, v)
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		c.T.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	b, _ := io.ReadAll(res.Body)
	if res.StatusCode != http.StatusOK {
		c.T.Fatalf("%s: got status %d, want 200: %s", path, res.StatusCode, b)
	}
}
