package proxy

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"precept/wire"
)

// target is a configured upstream, given as one would set OPENAI_BASE_URL.
type target struct {
	name      string
	base      *url.URL
	path      string // escaped path of base without a trailing slash
	versioned bool   // path holds a version segment (/v1, /v1beta/openai)
}

// newTarget reads an upstream's URL.
func newTarget(name, raw string) (*target, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, fmt.Errorf("upstream %s: %w", name, err)
	}
	if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, fmt.Errorf("upstream %s: %q is no http or https URL; write it like https://api.openai.com/v1", name, raw)
	}
	t := &target{name: name, base: u, path: strings.TrimRight(u.EscapedPath(), "/")}
	for seg := range strings.SplitSeq(t.path, "/") {
		t.versioned = t.versioned || isVersion(seg)
	}
	return t, nil
}

// isVersion tells v1, v2, v1beta from other path segments.
func isVersion(seg string) bool {
	return len(seg) >= 2 && seg[0] == 'v' && seg[1] >= '0' && seg[1] <= '9'
}

// resolve maps a client's escaped path and raw query onto the upstream. A client path /v1/X goes to the upstream's own
// version, where it has one; every other path is appended as it is.
func (t *target) resolve(escapedPath, rawQuery string) *url.URL {
	p := escapedPath
	if rest, ok := cutVersion(p); ok && t.versioned {
		p = rest
	}
	u := *t.base
	full := t.path + p
	if full == "" {
		full = "/"
	}
	if dec, err := url.PathUnescape(full); err == nil {
		u.Path, u.RawPath = dec, full
	} else {
		u.Opaque = "//" + u.Host + full
	}
	u.RawQuery = rawQuery
	return &u
}

// cutVersion takes a leading version segment off: /v1/models gives /models.
func cutVersion(p string) (string, bool) {
	if len(p) < 3 || p[0] != '/' {
		return p, false
	}
	seg, _, _ := strings.Cut(p[1:], "/")
	if !isVersion(seg) {
		return p, false
	}
	return p[1+len(seg):], true
}

// family is the API that a request belongs to, whether precept rewrites it or not: what counts tokens or runs batches of
// messages has the upstream of messages, a stored response that of responses. Where the path says nothing (models,
// files), the header that every client of the Messages API must send does. The messages of a thread are of another API.
func family(path string, h http.Header) wire.Dialect {
	switch d := wire.DialectOf(path); {
	case strings.Contains(path, "/threads/"):
		return wire.None
	case strings.Contains(path, "/messages/"), h.Get("Anthropic-Version") != "" && d == wire.None:
		return wire.Messages
	case strings.Contains(path, "/responses/"):
		return wire.Responses
	case strings.Contains(path, "/chat/completions/"):
		return wire.Chat
	default:
		return d
	}
}

// target picks the upstream: the path form's, among the configured names, else that of the family.
func (s *settings) target(d wire.Dialect, named string) *target {
	if named != "" {
		return s.targets[named]
	}
	if d == wire.None {
		return s.routes["other"]
	}
	return s.routes[d.String()]
}
