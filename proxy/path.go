package proxy

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"precept/internal/redact"
	"precept/internal/session"
	"precept/internal/wire"
)

type paths struct {
	bases          []string // the upstreams' escaped paths, which a client's base URL can contain
	answersLessons bool     // precept answers /v1/lessons
}

// normalise replaces a request's path with the normal path, which all later steps read. A known API's path has no
// doubled or trailing slashes, and each precept endpoint has one path. Other paths keep the bytes after the base URL.
func (p paths) normalise(r *http.Request) {
	escaped := r.URL.EscapedPath()
	path := p.normalPath(escaped)
	plain, err := url.PathUnescape(path)
	if path == escaped || err != nil {
		return
	}
	u := *r.URL
	u.Path, u.RawPath = plain, path
	r.URL = &u
}

func (p paths) normalPath(escaped string) string {
	if !strings.HasPrefix(escaped, "/") {
		return escaped
	}
	form, path := "", oneLeadingSlash(escaped)
	if after, ok := strings.CutPrefix(path, "/p/"); ok {
		segment, rest, _ := strings.Cut(after, "/")
		rest = oneLeadingSlash("/" + rest)
		if canonical, ok := p.endpoint(rest); ok {
			return "/p/" + segment + canonical
		}
		if _, _, ok := session.ParsePath(path); ok {
			form, path = "/p/"+segment, rest
		}
	}
	if canonical, ok := p.endpoint(path); ok {
		return form + canonical
	}
	if clean := withoutEmptySegments(path); detectAPI(clean, nil) != wire.NoDialect {
		return form + clean
	}
	if rest, ok := cutVersion(path); ok && strings.HasPrefix(rest, "//") {
		path = path[:len(path)-len(rest)] + oneLeadingSlash(rest)
	}
	return form + path
}

func oneLeadingSlash(path string) string { return "/" + strings.TrimLeft(path, "/") }

// withoutEmptySegments removes a path's empty segments, except in a URL scheme (https://) within the path.
func withoutEmptySegments(path string) string {
	if !strings.Contains(path, "//") {
		return strings.TrimRight(path, "/")
	}
	var b strings.Builder
	for i := range len(path) {
		if path[i] == '/' && i > 0 && path[i-1] == '/' && (i < 2 || path[i-2] != ':') {
			continue
		}
		b.WriteByte(path[i])
	}
	return strings.TrimRight(b.String(), "/")
}

// endpoint returns a precept endpoint's canonical path, such as /v1/feedback, /v1/lessons/ID or /healthz.
func (p paths) endpoint(path string) (canonical string, ok bool) {
	if !mayBeEndpoint(path) {
		return "", false
	}
	segments := strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
	for i, segment := range segments {
		name, err := url.PathUnescape(segment)
		if err != nil {
			continue
		}
		switch {
		case name == "feedback", name == "lessons" && p.answersLessons, name == "hooks":
			canonical = "/" + strings.Join(append([]string{"v1", name}, segments[i+1:]...), "/")
		case (name == "healthz" || name == "readyz") && i == len(segments)-1:
			canonical = "/" + name
		default:
			continue
		}
		if p.isBase("/" + strings.Join(segments[:i], "/")) {
			return canonical, true
		}
	}
	return "", false
}

// mayBeEndpoint reports whether a path may be a precept endpoint. If the result is false, the path need not be split.
func mayBeEndpoint(path string) bool {
	for _, part := range [...]string{"feedback", "lessons", "hooks", "healthz", "readyz", "%"} {
		if strings.Contains(path, part) {
			return true
		}
	}
	return false
}

// isBase reports whether a client's base URL can have this path. The path is empty, ends in a version, is an upstream's
// path or an Azure deployment, or ends in an API endpoint that somebody copied into the base URL.
func (p paths) isBase(path string) bool {
	last := path[strings.LastIndexByte(path, '/')+1:]
	return last == "" || isVersion(last) || wire.DialectForPath(path) != wire.NoDialect || slices.Contains(p.bases, path) ||
		isDeployment(path) && strings.Count(path, "/") == 3
}

// detectAPI returns a request's API, even if the request is not inspected. Token counts and batches belong to the
// Messages API, and stored responses to the Responses API. Other paths, such as models and files, belong to the
// Messages API if they have the mandatory header Anthropic-Version. Thread messages (Assistants API) belong to no
// inspected API.
func detectAPI(path string, h http.Header) wire.Dialect {
	switch d := wire.DialectForPath(path); {
	case strings.Contains(path, "/threads/"):
		return wire.NoDialect
	case strings.Contains(path, "/messages/"), h.Get("Anthropic-Version") != "" && d == wire.NoDialect:
		return wire.Messages
	case strings.Contains(path, "/responses/"):
		return wire.Responses
	case strings.Contains(path, "/chat/completions/"):
		return wire.Chat
	default:
		return d
	}
}

// withoutEndpoint removes an API endpoint that somebody copied into the base URL.
func withoutEndpoint(path string) string {
	for _, endpoint := range []string{"/chat/completions", "/responses", "/messages"} {
		if base, ok := strings.CutSuffix(path, endpoint); ok {
			return base
		}
	}
	return path
}

// withoutRepetition removes a repeated version (/v1/v1/models) or endpoint (/v1/chat/completions/chat/completions).
// Some clients append such a part although their base URL already contains it.
func withoutRepetition(path string) string {
	for rest, ok := cutVersion(path); ok && strings.HasPrefix(rest, path[:len(path)-len(rest)]+"/"); rest, ok = cutVersion(path) {
		path = rest
	}
	for _, endpoint := range []string{"/chat/completions", "/responses", "/messages"} {
		for strings.HasSuffix(path, endpoint+endpoint) {
			path = strings.TrimSuffix(path, endpoint)
		}
	}
	return path
}

// isVersion reports whether a segment is a version such as v1, v2 or v1beta.
func isVersion(seg string) bool {
	return len(seg) >= 2 && seg[0] == 'v' && seg[1] >= '0' && seg[1] <= '9'
}

// cutVersion cuts /v1/models to /models.
func cutVersion(path string) (string, bool) {
	if len(path) < 3 || path[0] != '/' {
		return path, false
	}
	seg, _, _ := strings.Cut(path[1:], "/")
	if !isVersion(seg) {
		return path, false
	}
	return path[1+len(seg):], true
}

func redactForLog(text string) string {
	if plain, err := url.PathUnescape(text); err == nil {
		text = plain
	}
	return redact.New(true).Text(text)
}

// unknownTexts holds client texts unknown to precept, such as keys after /p/ in the base URL. Each text is logged once,
// and at most maxUnknown texts are logged, because a client can send any number.
type unknownTexts struct {
	mu     sync.Mutex
	logged []string
}

const maxUnknown = 16

// add returns the redacted text. The caller logs the text if isNew is true.
func (u *unknownTexts) add(text string) (cleaned string, isNew bool) {
	text = redactForLog(text)
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.logged) == maxUnknown || slices.Contains(u.logged, text) {
		return text, false
	}
	u.logged = append(u.logged, text)
	return text, true
}

func (p *Proxy) warnUnknown(w *clientWriter, r *http.Request) {
	if w.unknownKey != "" {
		if key, isNew := p.unknownKeys.add(w.unknownKey); isNew {
			p.opts.log(w).Warn("an agent's base URL has an unknown key after /p/, and the key has no effect; correct the key", "key", key, "keys", session.PathKeys)
		}
	}
	if value := session.UnknownLearnValue(r.Header); value != "" {
		if value, isNew := p.unknownLearnValues.add(value); isNew {
			p.opts.log(w).Warn("the request header Precept-Learn has an unknown value, so the request is not stored; send off or on", "value", value)
		}
	}
}
