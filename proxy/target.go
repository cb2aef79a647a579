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

// target is a configured upstream with a URL like OPENAI_BASE_URL.
type target struct {
	name      string
	base      *url.URL
	path      string // base's escaped path without a trailing slash
	versioned bool   // path has a version (/v1, /v1beta/openai)
	transport *http.Transport

	warnUnknownOnce sync.Once // warning about an unknown path
	outages         outageLog
}

func newTarget(name, raw string) (*target, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, fmt.Errorf("upstream %s: %w", name, err)
	}
	if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, fmt.Errorf("upstream %s: %q is not an http or https URL; write it like https://api.openai.com/v1", name, raw)
	}
	t := &target{name: name, base: u, path: withoutEndpoint(strings.TrimRight(u.EscapedPath(), "/"))}
	for seg := range strings.SplitSeq(t.path, "/") {
		t.versioned = t.versioned || isVersion(seg)
	}
	// In a gateway path (/v1/ID/NAME/anthropic), the version is the gateway's, and the client's path adds the API's
	// version.
	t.versioned = t.versioned && !strings.HasSuffix(t.path, "/anthropic")
	return t, nil
}

// upstreamPath returns the path at the upstream. A path that begins with the upstream's whole path stays unchanged.
// Other paths are appended, without the version if the upstream's path has one.
func (t *target) upstreamPath(p string) string {
	p = withoutRepetition(p)
	rest, ok := cutVersion(p)
	if ok && (t.covers(rest) || isDeployment(rest)) { // the client's base URL contains the upstream's path after a version
		p, ok = rest, false
	}
	if t.covers(p) {
		return p
	}
	above, azure := strings.CutSuffix(strings.TrimSuffix(t.path, "/v1"), "/openai")
	if isDeployment(p) || azure && strings.HasPrefix(p, "/openai/") { // Azure has deployments beside /openai/v1, not below it
		return above + p
	}
	if ok && t.versioned {
		p = rest
	}
	return t.path + p
}

// covers reports whether a client's path begins with the upstream's path. If the upstream's path has no version, covers
// returns true only for inspected paths, because a different path may begin with the same segments by chance.
func (t *target) covers(path string) bool {
	return t.path != "" && strings.HasPrefix(path, t.path+"/") && (t.versioned || wire.DialectForPath(path) != wire.NoDialect)
}

const deployments = "/openai/deployments/"

func isDeployment(p string) bool { return strings.HasPrefix(p, deployments) }

// deploymentName returns the Azure deployment in a path, used as the model if the body names none.
func deploymentName(p string) string {
	_, name, _ := strings.Cut(p, deployments)
	name, _, _ = strings.Cut(name, "/")
	return name
}

func (t *target) warnUnknown(log func() *slog.Logger, requestedPath, sentPath string) {
	t.warnUnknownOnce.Do(func() {
		log().Warn("the upstream answers 404; if the upstream does not know this path, correct the agent's base URL (with or without /v1) or the upstream's URL",
			"upstream", t.name, "asked", cutPath(redactForLog(requestedPath)), "sent", cutPath(redactForLog(sentPath)))
	})
}

func cutPath(path string) string {
	const maxBytes = 200
	if len(path) > maxBytes {
		return path[:maxBytes] + "..."
	}
	return path
}

// resolve returns the URL at the upstream. forceQuery keeps the question mark before an empty query.
func (t *target) resolve(escapedPath, rawQuery string, forceQuery bool) *url.URL {
	u := *t.base
	full := t.upstreamPath(escapedPath)
	if full == "" {
		full = "/"
	}
	if unescaped, err := url.PathUnescape(full); err == nil {
		u.Path, u.RawPath = unescaped, full
	} else {
		u.Opaque = "//" + u.Host + full
	}
	u.RawQuery, u.ForceQuery = rawQuery, forceQuery
	return &u
}
