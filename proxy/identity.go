package proxy

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"precept/configs"
	"precept/internal/redact"
	"precept/internal/session"
	"precept/internal/wire"
)

// identity is a request's tenant and key, derived only from the credential, never from a name in the request.
type identity struct {
	tenant     string
	credential [sha256.Size]byte // SHA-256 of credentialOwner's result; zero without a credential
	key        *configs.Key      // nil unless tenancy is keys
}

// requestCredential returns the credential in the headers or the query parameter of the supported APIs.
func requestCredential(r *http.Request) string {
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

// maxTokenBytes is the maximum size of a signed token. A longer token is not decoded.
const maxTokenBytes = 16 << 10

// credentialOwner returns a string that identifies a credential's owner. For a signed token (JWT), it has the issuer
// and the subject, because an agent refreshes the token in the middle of a session. Only the upstream checks the
// signature. The zero byte, which no header contains, makes the string different from every other credential.
func credentialOwner(credential string) string {
	token := credential[strings.LastIndexByte(credential, ' ')+1:] // requestCredential removes only the Bearer scheme, not DPoP
	head, rest, _ := strings.Cut(token, ".")
	payload, _, isJWT := strings.Cut(rest, ".")
	if !isJWT || len(token) > maxTokenBytes {
		return credential
	}
	var header struct {
		Algorithm string `json:"alg"`
	}
	var claims struct {
		Issuer  string `json:"iss"`
		Subject string `json:"sub"`
	}
	if !decodePart(head, &header) || !decodePart(payload, &claims) || header.Algorithm == "" || claims.Issuer == "" || claims.Subject == "" {
		return credential
	}
	return "jwt\x00" + claims.Issuer + "\x00" + claims.Subject
}

func decodePart(part string, target any) bool {
	text, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(part, "="))
	return err == nil && json.Unmarshal(text, target) == nil
}

// authenticate returns the client's identity. With tenancy: keys, an unknown key is an error.
func (s *settings) authenticate(r *http.Request, d wire.Dialect) (identity, error) {
	credential := requestCredential(r)
	owner := credentialOwner(credential)
	id := identity{tenant: "default"}
	if credential != "" {
		id.credential = sha256.Sum256([]byte(owner))
	}
	switch s.cfg.Tenancy {
	case "by-credential":
		if credential != "" {
			m := hmac.New(sha256.New, s.secret)
			m.Write([]byte(owner))
			id.tenant = "t-" + hex.EncodeToString(m.Sum(nil)[:12])
		}
	case "keys":
		sum := sha256.Sum256([]byte(credential))
		id.key = s.keys[hex.EncodeToString(sum[:])]
		if id.key == nil || credential == "" {
			return id, newAPIError(d, http.StatusUnauthorized, "the API key is not listed in precept's configuration (keys); ask precept's operator for a key")
		}
		id.tenant = id.key.Tenant
	}
	return id, nil
}

func (s *settings) apiIdentity(r *http.Request) (identity, error) {
	who, err := s.authenticate(r, wire.NoDialect)
	if err == nil && s.tenantsUnknown {
		err = newAPIError(wire.NoDialect, http.StatusServiceUnavailable, "the store is not available yet; try again")
	}
	return who, err
}

func (id *identity) scope() session.Scope {
	return session.Scope{Tenant: id.tenant, Credential: binary.LittleEndian.Uint64(id.credential[:8])}
}

// caller returns a digest of the credential's owner, or "" without a credential. All replicas return the same digest,
// so that the distiller does not count one caller twice.
func (id *identity) caller() string {
	if id.credential == ([sha256.Size]byte{}) {
		return ""
	}
	sum := sha256.Sum256(append([]byte("caller\x00"), id.credential[:]...))
	return hex.EncodeToString(sum[:8])
}

// restrict replaces the claimed agent with the configured key's agent, and removes a forbidden role.
func (id *identity) restrict(c *session.Claim) {
	if id.key == nil {
		return
	}
	if id.key.Agent != "" {
		c.Agent = id.key.Agent
	}
	isClaimed := func(role string) bool { return strings.EqualFold(role, c.Role) }
	if len(id.key.Roles) > 0 && !slices.ContainsFunc(id.key.Roles, isClaimed) {
		c.Role = ""
	}
}

// setUpstreamKey replaces precept's key with the upstream's key, in the same header or query parameter.
func (id *identity) setUpstreamKey(h http.Header, u *url.URL) {
	if id.key == nil || id.key.UpstreamKey == "" {
		return
	}
	upstreamKey := id.key.UpstreamKey.Reveal()
	set := setQueryKey(u, upstreamKey)
	for _, name := range [...]string{"X-Api-Key", "Api-Key", "X-Goog-Api-Key"} {
		if h.Get(name) != "" {
			h.Set(name, upstreamKey)
			set = true
		}
	}
	if !set || h.Get("Authorization") != "" {
		h.Set("Authorization", "Bearer "+upstreamKey)
	}
}

func setQueryKey(u *url.URL, key string) (set bool) {
	if !strings.Contains(u.RawQuery, "key=") {
		return false
	}
	pairs := strings.Split(u.RawQuery, "&")
	for i, p := range pairs {
		if name, _, _ := strings.Cut(p, "="); name == "key" {
			pairs[i], set = "key="+url.QueryEscape(key), true
		}
	}
	u.RawQuery = strings.Join(pairs, "&")
	return set
}

func (s *settings) mayLearn(id *identity, agent string) bool {
	if !s.cfg.Learning.Enabled || (id.key != nil && id.key.Learn == "off") {
		return false
	}
	return !s.optOut.OptsOutTenant(id.tenant) && !s.optOut.OptsOutAgent(agent)
}

// mayStoreFeedback returns false if the tenant, the key, or the agent in the path or in Precept-Agent opted out.
func (s *settings) mayStoreFeedback(r *http.Request, who *identity) bool {
	form, _, _ := session.ParsePath(r.URL.EscapedPath())
	named := session.Claim{Agent: cmp.Or(session.NormalizeName(r.Header.Get("Precept-Agent")), form.Agent)}
	who.restrict(&named)
	return !session.Identify(r.Header, "", nil).LearnOff && s.mayLearn(who, named.Agent)
}

// cleanName redacts a name in records, counters, samples and spans. Most names need no check, because they are too
// short for a secret and have no @.
func (s *settings) cleanName(name string) string {
	const minSecretBytes = 16
	if len(name) < minSecretBytes && !strings.Contains(name, "@") {
		return name
	}
	return redact.New(s.cfg.Learning.AnonymizePII).Text(name)
}
