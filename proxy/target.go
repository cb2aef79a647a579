package proxy

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"precept/internal/wire"
)

// target is a configured upstream, given as one would set OPENAI_BASE_URL.
type target struct {
	name      string
	base      *url.URL
	path      string // escaped path of base without a trailing slash
	versioned bool   // path holds a version segment (/v1, /v1beta/openai)
	transport *http.Transport

	unknown sync.Once // it was told that the upstream does not know a path
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
	t := &target{name: name, base: u, path: withoutEndpoint(strings.TrimRight(u.EscapedPath(), "/"))}
	for seg := range strings.SplitSeq(t.path, "/") {
		t.versioned = t.versioned || isVersion(seg)
	}
	// A gateway's own version is none of the Messages API: it stands below (/v1/ID/NAME/anthropic).
	t.versioned = t.versioned && !strings.HasSuffix(t.path, "/anthropic")
	return t, nil
}

// withoutEndpoint takes off the endpoint that somebody has copied with the base URL.
func withoutEndpoint(path string) string {
	for _, e := range []string{"/chat/completions", "/responses", "/messages"} {
		if base, ok := strings.CutSuffix(path, e); ok {
			return base
		}
	}
	return path
}

// undoubled takes off what a client's path says twice because its base URL holds too much: the
// version (/v1/v1/models), the endpoint (/v1/chat/completions/chat/completions). No API has such
// paths of its own.
func undoubled(p string) string {
	for rest, ok := cutVersion(p); ok && strings.HasPrefix(rest, p[:len(p)-len(rest)]+"/"); rest, ok = cutVersion(p) {
		p = rest
	}
	for _, e := range []string{"/chat/completions", "/responses", "/messages"} {
		for strings.HasSuffix(p, e+e) {
			p = strings.TrimSuffix(p, e)
		}
	}
	return p
}

// place is where a client's path lies at the upstream. One /v1/X goes to the upstream's own
// version, where it has one; what begins with the upstream's whole path is there already; every
// other is appended as it is.
func (t *target) place(p string) string {
	p = undoubled(p)
	rest, ok := cutVersion(p)
	if ok && (t.holds(rest) || isDeployment(rest)) { // a base URL that holds too much, below a version
		p, ok = rest, false
	}
	if t.holds(p) {
		return p
	}
	above, azure := strings.CutSuffix(strings.TrimSuffix(t.path, "/v1"), "/openai")
	if isDeployment(p) || azure && strings.HasPrefix(p, "/openai/") { // beside /openai/v1, not below it
		return above + p
	}
	if ok && t.versioned {
		p = rest
	}
	return t.path + p
}

// holds says whether a client's path begins with the upstream's own: a path of the latter may stand
// below itself where it ends in no version and the client asks for something else than an answer.
func (t *target) holds(p string) bool {
	return t.path != "" && strings.HasPrefix(p, t.path+"/") && (t.versioned || wire.DialectOf(p) != wire.None)
}

func isDeployment(p string) bool { return strings.HasPrefix(p, "/openai/deployments/") }

// warnUnknown tells once in the log that the upstream does not know a path, and what may be wrong.
func (t *target) warnUnknown(log func() *slog.Logger, asked, sent string) {
	t.unknown.Do(func() {
		log().Warn("the upstream answers 404; if it does not know this path, mend the agent's base URL (with or without /v1) or the upstream's",
			"upstream", t.name, "asked", short(asked), "sent", short(sent))
	})
}

// short is a path of which the log needs no more.
func short(path string) string {
	const most = 200
	if len(path) > most {
		return path[:most] + "..."
	}
	return path
}

// isVersion tells v1, v2, v1beta from other path segments.
func isVersion(seg string) bool {
	return len(seg) >= 2 && seg[0] == 'v' && seg[1] >= '0' && seg[1] <= '9'
}

// resolve maps a client's escaped path and raw query onto the upstream. lone says that the query is
// a question mark with nothing behind it.
func (t *target) resolve(escapedPath, rawQuery string, lone bool) *url.URL {
	u := *t.base
	full := t.place(escapedPath)
	if full == "" {
		full = "/"
	}
	if dec, err := url.PathUnescape(full); err == nil {
		u.Path, u.RawPath = dec, full
	} else {
		u.Opaque = "//" + u.Host + full
	}
	u.RawQuery, u.ForceQuery = rawQuery, lone
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

// family is the API that a request belongs to, whether precept rewrites it or not: what counts
// tokens or runs batches of messages has the upstream of messages, a stored response that of
// responses. Where the path says nothing (models, files), the header that every client of the
// Messages API must send does. The messages of a thread are of another API.
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
