package proxy

import (
	"log/slog"
	"strings"
	"sync"
	"time"
)

const unsupportedLogInterval = time.Hour

// unsupportedRequests counts forwarded POST requests to unsupported APIs, and logs one line an hour.
type unsupportedRequests struct {
	mu      sync.Mutex
	lastLog time.Time
	count   int64
}

func (u *unsupportedRequests) add(log func() *slog.Logger, path string, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.count++
	if !u.lastLog.IsZero() && now.Sub(u.lastLog) < unsupportedLogInterval {
		return
	}
	u.lastLog = now
	log().Warn("a request to an unsupported API was forwarded, but gets no lessons and is not stored; use the provider's OpenAI-compatible or Anthropic API (known limits: docs/AGENTS.md)",
		"path", redactForLog(path[:min(len(path), 200)]), "count", u.count)
}

// UnsupportedRequests returns the number of forwarded POST requests to unsupported APIs.
func (p *Proxy) UnsupportedRequests() int64 {
	p.unsupported.mu.Lock()
	defer p.unsupported.mu.Unlock()
	return p.unsupported.count
}

// isAuxiliary reports whether a path is an endpoint without a conversation, such as embeddings.
func isAuxiliary(path string) bool {
	for segment := range strings.SplitSeq(path, "/") {
		switch segment {
		case "embeddings", "moderations", "rerank", "audio", "images", "videos", "files", "uploads", "batches", "vector_stores",
			"threads", "conversations", "telemetry", "metrics", "event_logging", "tokenize", "detokenize", "tokens":
			return true
		}
	}
	return strings.HasSuffix(path, ":countTokens") || strings.HasSuffix(path, ":embedContent") || strings.HasSuffix(path, ":batchEmbedContents")
}
