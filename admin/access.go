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

// access holds the token digests and this server's host names.
type access struct {
	holders       []holder
	hosts         map[string]bool // lower case, without port
	anyIP         bool            // accept any IP address in a Host header, because the server listens on every address
	publicMetrics bool
}

// parseAccess validates the rules and digests the tokens. The host name in listen is also accepted in a Host header.
func parseAccess(a Access, listen string) (*access, error) {
	out := &access{publicMetrics: a.PublicMetrics, hosts: map[string]bool{"localhost": true, "127.0.0.1": true, "::1": true}}
	if len(a.Tokens) == 0 {
		return nil, errNoToken
	}
	// byDigest returns the last match, so a token in both lists is an operator's.
	for i, t := range append(slices.Clone(a.Viewers), a.Tokens...) {
		sum, err := digestToken(t)
		if err != nil {
			return nil, err
		}
		h := holder{sum: sum, role: operator}
		if i < len(a.Viewers) {
			h.role = viewer
		}
		out.holders = append(out.holders, h)
	}
	listenHost, _, err := net.SplitHostPort(listen)
	if err != nil {
		listenHost = listen
	}
	if ip, err := netip.ParseAddr(listenHost); listenHost == "" || (err == nil && ip.IsUnspecified()) {
		out.anyIP = true
	}
	for _, h := range append([]string{listenHost}, a.Hosts...) {
		if h != "" {
			out.hosts[hostName(h)] = true
		}
	}
	return out, nil
}

// digestToken returns the SHA-256 of a token given as plain text or as sha256:<hex>.
func digestToken(t string) (sum [sha256.Size]byte, err error) {
	hexSum, isHash := strings.CutPrefix(t, "sha256:")
	if !isHash {
		if strings.TrimSpace(t) == "" {
			return sum, fmt.Errorf("an admin token is empty: %w", errNoToken)
		}
		return sha256.Sum256([]byte(t)), nil
	}
	raw, err := hex.DecodeString(hexSum)
	if err != nil || len(raw) != sha256.Size {
		return sum, fmt.Errorf("an admin token with the prefix sha256: is not a SHA-256 in hex")
	}
	copy(sum[:], raw)
	return sum, nil
}

func (a *access) byToken(token string) (found holder, ok bool) {
	found, ok = a.byDigest(sha256.Sum256([]byte(token)))
	return found, ok && token != ""
}

// byDigest returns the holder of the token with this digest. byDigest compares every token in constant time, so the
// duration reveals nothing about the tokens.
func (a *access) byDigest(sum [sha256.Size]byte) (found holder, ok bool) {
	for i := range a.holders {
		if subtle.ConstantTimeCompare(sum[:], a.holders[i].sum[:]) == 1 {
			found, ok = a.holders[i], true
		}
	}
	return found, ok
}

// byLogin returns the holder of the token that started a login; ok is false once that token has been removed.
func (a *access) byLogin(cookie string, proof [sha256.Size]byte) (found holder, ok bool) {
	for i := range a.holders {
		if want := loginProof(cookie, a.holders[i].sum); subtle.ConstantTimeCompare(want[:], proof[:]) == 1 {
			found, ok = a.holders[i], true
		}
	}
	return found, ok
}

// isOwnHost reports whether a Host header names this server. isOwnHost ignores the port, because containers map ports,
// and a DNS-rebinding attacker controls only the name.
func (a *access) isOwnHost(host string) bool {
	name := hostName(host)
	if a.hosts[name] {
		return true
	}
	_, err := netip.ParseAddr(name)
	return err == nil && a.anyIP
}

// hostName returns host in lower case, without the port, the brackets and the final dot.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.TrimSuffix(strings.ToLower(host), ".")
}

type role int

const (
	operator role = iota // changes and reads everything
	viewer               // reads lessons and statistics, but no conversations
)

func (r role) String() string {
	if r == viewer {
		return "viewer"
	}
	return "operator"
}

const holderKey = "holder" // echo context key: holder of the request's token

// holder represents the person or program that has a token, by the token's digest and role.
type holder struct {
	sum  [sha256.Size]byte
	role role
}

// String returns the role and the first 8 hex digits of the token's SHA-256, as in `printf %s "$TOKEN" | sha256sum`.
func (h holder) String() string { return h.role.String() + " " + hex.EncodeToString(h.sum[:4]) }

// requestHolder returns the holder of the request's token. If the request has no token, because it reads public
// metrics, the holder is a viewer.
func requestHolder(c echo.Context) holder {
	if h, ok := c.Get(holderKey).(holder); ok {
		return h
	}
	return holder{role: viewer}
}

// isViewable reports whether viewers are allowed to read a route. Conversations, samples, exports and profiles
// contain what people and models wrote, so a route that is not listed here is for operators only.
func isViewable(path string) bool {
	switch path {
	case "/", "/lessons", "/lessons/:slug", "/breakdown", "/rules", "/queue", "/sessions", "/views", "/traffic", "/compare", "/health", "/help", "/help/*",
		"/api/openapi.yaml", "/api/report", "/api/sessions", "/api/facets", "/api/views", "/api/traffic", "/api/compare", "/api/health", "/metrics", "/*":
		return true
	}
	return false
}
