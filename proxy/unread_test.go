package proxy_test

import (
	"net/http"
	"testing"
)

func TestUnsupportedRequestsAreCounted(t *testing.T) {
	f := newDefaultFixture(t, newUpstream(t, nil))
	f.chat(t, nil, `{"model":"m","messages":[{"role":"user","content":"hello"}]}`)
	f.send(t, http.MethodPost, "/v1/embeddings", nil, `{}`)
	f.send(t, http.MethodGet, "/v1/models", nil, "")
	if n := f.UnsupportedRequests(); n != 0 {
		t.Errorf("UnsupportedRequests after chat, embeddings and model list = %d, want 0", n)
	}
	f.send(t, http.MethodPost, "/v1beta/models/gemini-pro:generateContent?key=secret", nil, `{}`)
	f.send(t, http.MethodPost, "/api/chat", nil, `{}`)
	if n := f.UnsupportedRequests(); n != 2 {
		t.Errorf("UnsupportedRequests after requests to Gemini's and Ollama's APIs = %d, want 2", n)
	}
}
