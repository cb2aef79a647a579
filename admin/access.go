package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"
)

// access is an Access, digested.
type access struct {
	holders       []holder
	hosts         map[string]bool // lower case, without port
	anyIP         bool            // the listener listens on every address: each IP literal may be ours
	publicMetrics bool
}

func digest(a Access, listen string) (*access, error) {
	out := &access{publicMetrics: a.PublicMetrics, hosts: map[string]bool{"localhost": true, "127.0.0.1": true, "::1": true}}
	if len(a.Tokens) == 0 {
		return nil, errNoToken
	}
	for i, t := range append(slices.Clone(a.Viewers), a.Tokens...) { // find returns the last match, so that the token of an operator keeps the role of an operator
		sum, err := digestToken(t)
		if err != nil {
			return nil, err
		}
		one := holder{sum: sum, role: operator}
		if i < len(a.Viewers) {
			one.role = viewer
		}
		out.holders = append(out.holders, one)
	}
	own, _, err := net.SplitHostPort(listen)
	if err != nil {
		own = listen
	}
	if ip, err := netip.ParseAddr(own); own == "" || (err == nil && ip.IsUnspecified()) {
		out.anyIP = true
	}
	for _, h := range append([]string{own}, a.Hosts...) {
		if h != "" {
			out.hosts[hostName(h)] = true
		}
	}
	return out, nil
}

func digestToken(t string) (sum [sha256.Size]byte, err error) {
	text, hashed := strings.CutPrefix(t, "sha256:")
	if !hashed {
		if strings.TrimSpace(t) == "" {
			return sum, fmt.Errorf("an admin token is empty: %w", errNoToken)
		}
		return sha256.Sum256([]byte(t)), nil
	}
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != sha256.Size {
		return sum, fmt.Errorf("an admin token is not SHA-256 in hex behind sha256:")
	}
	copy(sum[:], raw)
	return sum, nil
}

// find returns the holder of a token. Every token is compared, so that the time reveals nothing.
func (a *access) find(token string) (found holder, ok bool) {
	found, ok = a.holder(sha256.Sum256([]byte(token)))
	return found, ok && token != ""
}

// holder returns the holder of a token's digest while the token is valid.
func (a *access) holder(sum [sha256.Size]byte) (found holder, ok bool) {
	for i := range a.holders {
		if subtle.ConstantTimeCompare(sum[:], a.holders[i].sum[:]) == 1 {
			found, ok = a.holders[i], true
		}
	}
	return found, ok
}

// isOwnHost reports whether a Host header names this server. The port is ignored: a rebinding attack
// needs a name under its control, and containers map ports.
func (a *access) isOwnHost(host string) bool {
	name := hostName(host)
	if a.hosts[name] {
		return true
	}
	_, err := netip.ParseAddr(name)
	return err == nil && a.anyIP
}

// hostName returns a host without port and brackets, in lower case.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.TrimSuffix(strings.ToLower(host), ".")
}

// role is the set of permissions of a token.
type role int

const (
	operator role = iota // everything
	viewer               // reads lessons and figures; changes nothing, and reads no conversations
)

// String returns the name of the role in the audit and on pages.
func (r role) String() string {
	if r == viewer {
		return "viewer"
	}
	return "operator"
}

const holderKey = "holder" // key of the echo context: the holder of the request's token

// holder is the holder of a token: the digest and the role.
type holder struct {
	sum  [sha256.Size]byte
	role role
}

// String names a holder without revealing the token: the role, and the start of the digest as
// printed by `printf %s "$TOKEN" | sha256sum`.
func (h holder) String() string { return h.role.String() + " " + hex.EncodeToString(h.sum[:4]) }

// holderOf returns the holder of the request's token, a viewer for public metrics.
func holderOf(c echo.Context) holder {
	if h, ok := c.Get(holderKey).(holder); ok {
		return h
	}
	return holder{role: viewer}
}

// viewable reports whether a viewer may read a route. Unlisted routes are for operators:
// conversations, samples, exports and profiles contain the words of people and models.
func viewable(path string) bool {
	switch path {
	case "/", "/lessons", "/lessons/:slug", "/breakdown", "/rules", "/queue", "/sessions", "/views", "/compare", "/health", "/help", "/help/*",
		"/api/openapi.yaml", "/api/report", "/api/sessions", "/api/facets", "/api/views", "/api/compare", "/api/health", "/metrics", "/*":
		return true
	}
	return false
}
