package proxy

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"net/http"
	"strings"

	"precept/configs"
	"precept/session"
)

// identity is who pays for a request: it comes from the credential alone, never from a name that a client chose.
type identity struct {
	tenant     string
	credential [sha256.Size]byte // of what the client presented; zero without one
	key        *configs.Key      // tenancy keys
}

// credentialOf finds what a client authenticates with: the places that the three APIs know.
func credentialOf(r *http.Request) string {
	if a := r.Header.Get("Authorization"); a != "" {
		if scheme, token, ok := strings.Cut(a, " "); ok && strings.EqualFold(scheme, "Bearer") {
			return strings.TrimSpace(token)
		}
		return a
	}
	for _, h := range [...]string{"X-Api-Key", "Api-Key", "X-Goog-Api-Key"} {
		if v := r.Header.Get(h); v != "" {
			return v
		}
	}
	if strings.Contains(r.URL.RawQuery, "key=") {
		return r.URL.Query().Get("key")
	}
	return ""
}

// identify tells the tenant. ok is false for a key that is not listed (tenancy keys).
func (s *settings) identify(r *http.Request) (identity, bool) {
	c := credentialOf(r)
	id := identity{tenant: "default"}
	if c != "" {
		id.credential = sha256.Sum256([]byte(c))
	}
	switch s.cfg.Tenancy {
	case "by-credential":
		if c != "" {
			m := hmac.New(sha256.New, s.secret)
			m.Write([]byte(c))
			id.tenant = "t-" + hex.EncodeToString(m.Sum(nil)[:12])
		}
	case "keys":
		id.key = s.keys[hex.EncodeToString(id.credential[:])]
		if id.key == nil || c == "" {
			return id, false
		}
		id.tenant = id.key.Tenant
	}
	return id, true
}

// scope is inside what this client's conversations are recognised.
func (id *identity) scope() session.Scope {
	return session.Scope{Tenant: id.tenant, Credential: binary.LittleEndian.Uint64(id.credential[:8])}
}

// present replaces precept's own key by the upstream's, in the place where the client put it.
func (id *identity) present(h http.Header) {
	if id.key == nil || id.key.UpstreamKey == "" {
		return
	}
	up := id.key.UpstreamKey.Reveal()
	set := false
	for _, name := range [...]string{"X-Api-Key", "Api-Key", "X-Goog-Api-Key"} {
		if h.Get(name) != "" {
			h.Set(name, up)
			set = true
		}
	}
	if !set || h.Get("Authorization") != "" {
		h.Set("Authorization", "Bearer "+up)
	}
}

// learns says whether anything of this tenant's and agent's traffic may be kept.
func (s *settings) learns(id *identity, agent string) bool {
	if !s.cfg.Learning.Enabled || (id.key != nil && id.key.Learn == "off") {
		return false
	}
	return !s.optOut.Tenant(id.tenant) && !s.optOut.Agent(agent)
}
