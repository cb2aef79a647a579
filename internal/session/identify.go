package session

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"precept/internal/wire"
)

// Method says how a session was recognised; it is a metric label.
type Method string

// The methods, strongest first.
const (
	ByHeader Method = "header" // Precept-Session
	ByPath   Method = "path"   // the path form
	ByAgent  Method = "agent"  // an agent's own session header
	ByBody   Method = "body"   // metadata, prompt_cache_key, conversation, previous_response_id
	ByEcho   Method = "echo"   // what the agent sends back
	ByNew    Method = "new"    // nothing known: a new session
)

// named says that the client gave a name: every request of the session will bring it again.
func (m Method) named() bool { return m == ByHeader || m == ByPath || m == ByAgent }

// DefaultAgent is the agent of a request that says nothing of its own.
const DefaultAgent = "default"

// Claim is what a request says of itself, before anything is looked up.
type Claim struct {
	Agent, Role, Skill string
	Product            string // of the User-Agent, lower case: known agents are recognised by it
	Tags               []string
	InjectOff          bool // Precept-Inject: off
	LearnOff           bool // Precept-Learn: off
	Retry              bool // the client's library says that it sends this again

	Run      string // the name of the run that the request belongs to, bounded; "" when there is none
	Session  string // the claimed name, bounded; "" when there is none
	Space    Space
	Method   Method
	Previous string // previous_response_id
}

// Bounds of what a header may put into memory.
const (
	maxTags   = 32
	maxTagLen = 64
)

// Identify reads who is speaking. path is the escaped path as requested; req is nil for a request
// that is only passed on.
func Identify(h http.Header, path string, req *wire.Request) Claim {
	form, _, _ := ParsePath(path)
	product := product(h.Get("User-Agent"))
	c := Claim{
		Agent:     cmp.Or(Bounded(h.Get("Precept-Agent")), form.Agent, product, DefaultAgent),
		Role:      cmp.Or(Bounded(h.Get("Precept-Role")), form.Role),
		Skill:     cmp.Or(Bounded(h.Get("Precept-Skill")), form.Skill),
		Product:   strings.ToLower(product),
		Tags:      tags(h.Values("Precept-Tags")),
		InjectOff: off(h.Get("Precept-Inject")),
		LearnOff:  off(h.Get("Precept-Learn")),
		Retry:     retried(h.Get("X-Stainless-Retry-Count")),
		Run:       cmp.Or(Bounded(h.Get("Precept-Run")), form.Run),
	}
	if req != nil {
		c.Previous = Bounded(req.Hints.PreviousID)
	}
	c.claim(h, form, req)
	return c
}

// loose says that the name may stand for more than one conversation: applications set one key for
// the provider's cache, or one session for a whole process. Agents that are known to name their
// conversations so are believed.
func (c *Claim) loose() bool {
	switch c.Space {
	case SpaceMetadata, SpaceConversation:
		return true
	case SpaceCacheKey:
		for _, known := range [...]string{"codex", "opencode", "pi"} {
			if rest, ok := strings.CutPrefix(c.Product, known); ok && (rest == "" || strings.ContainsAny(rest[:1], "-_.")) {
				return false
			}
		}
		return true
	default:
		return false
	}
}

// Named says that the claimed name is one of a conversation, as far as names can be believed.
func (c *Claim) Named() bool { return c.Session != "" && !c.loose() }

// claim finds the name, in the order of what a client meant most.
func (c *Claim) claim(h http.Header, form PathForm, req *wire.Request) {
	if name := Bounded(h.Get("Precept-Session")); name != "" {
		c.Session, c.Space, c.Method = name, SpaceName, ByHeader
		return
	}
	if form.Session != "" {
		c.Session, c.Space, c.Method = form.Session, SpaceName, ByPath
		return
	}
	if name, space := agentHeader(h, c.Product); name != "" {
		c.Session, c.Space, c.Method = name, space, ByAgent
		return
	}
	if req == nil {
		return
	}
	for _, b := range [...]struct {
		name  string
		space Space
	}{
		{req.Hints.MetadataSession, SpaceMetadata},
		{req.Hints.UserIDSession, SpaceUserID},
		{req.Hints.PromptCacheKey, SpaceCacheKey},
		{req.Hints.Conversation, SpaceConversation},
	} {
		if name := Bounded(b.name); name != "" {
			c.Session, c.Space, c.Method = name, b.space, ByBody
			return
		}
	}
}

// agentHeader reads the session headers that agents send of themselves. session-id and thread-id
// are too common as names to be believed of anyone but codex.
func agentHeader(h http.Header, product string) (string, Space) {
	codex := strings.HasPrefix(product, "codex")
	for _, a := range [...]struct {
		header string // canonical: a look-up costs nothing then
		space  Space
	}{
		{"X-Claude-Code-Session-Id", SpaceClaude},
		{"Session-Id", SpaceCodexSession},
		{"Thread-Id", SpaceCodexThread},
		{"X-Session-Id", SpaceXSession},
		{"Session_id", SpaceUnderscore},
		{"X-Session-Affinity", SpaceAffinity},
		{"Helicone-Session-Id", SpaceHelicone},
		{"X-Litellm-Session-Id", SpaceLiteLLM},
		{"Agent-Session-Id", SpaceAgent},
	} {
		values := h[a.header]
		if len(values) == 0 || !codex && (a.space == SpaceCodexSession || a.space == SpaceCodexThread) {
			continue
		}
		if name := Bounded(values[0]); name != "" {
			return name, a.space
		}
	}
	return "", ""
}

// product is the first product name of a User-Agent: "codex_exec/0.169.0 (...)" is codex_exec.
func product(ua string) string {
	ua = ua[:min(len(ua), maxTagLen)]
	rest := strings.TrimLeft(ua, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")
	return strings.Clone(ua[:len(ua)-len(rest)]) // a session must not hold the header that it was cut out of
}

// tags splits comma lists, bounded, without repetitions.
func tags(lines []string) []string {
	var out []string
	for _, line := range lines {
		for tag := range strings.SplitSeq(line, ",") {
			tag = strings.TrimSpace(tag)
			same := func(t string) bool { return strings.EqualFold(t, tag) }
			if tag == "" || len(tag) > maxTagLen || !clean(tag) || slices.ContainsFunc(out, same) {
				continue
			}
			if len(out) == maxTags {
				return out
			}
			out = append(out, tag)
		}
	}
	return out
}

// off reads a switch. Only the words for "no" count: an unknown value changes nothing.
func off(v string) bool {
	switch strings.ToLower(strings.TrimSpace(v)) {
	case "off", "false", "no", "0":
		return true
	}
	return false
}

// retried reads the retry count that the common client libraries send.
func retried(v string) bool {
	return v != "" && v != "0" && strings.Trim(v, "0123456789") == ""
}

// PathForm is what a client says in the path, when a base URL is all that it can set:
// /p/agent=coder,run=ci-42,session=one,role=reviewer,upstream=x/v1/...
type PathForm struct {
	Agent, Run, Session, Role, Skill, Upstream string
}

// ParsePath splits the escaped path into what it says and the path without the /p/ segment. A path
// that is not of this form is returned as it is, with false: /p/... without a known key may be an
// upstream's own.
func ParsePath(path string) (PathForm, string, bool) {
	var f PathForm
	after, ok := strings.CutPrefix(path, "/p/")
	if !ok {
		return f, path, false
	}
	segment, rest, slash := strings.Cut(after, "/")
	if !strings.Contains(segment, "=") { // some clients escape the signs as well
		segment = unescape(segment)
	}
	known := false
	for pair := range strings.SplitSeq(segment, ",") {
		key, value, _ := strings.Cut(pair, "=")
		known = f.set(key, value) || known
	}
	if !known {
		return PathForm{}, path, false
	}
	if !slash {
		return f, "/", true
	}
	return f, "/" + rest, true
}

// set takes one pair; of two with the same key the first holds.
func (f *PathForm) set(key, value string) bool {
	field, ok := map[string]*string{
		"agent": &f.Agent, "run": &f.Run, "session": &f.Session, "role": &f.Role, "skill": &f.Skill, "upstream": &f.Upstream,
	}[strings.ToLower(unescape(key))]
	if ok && *field == "" {
		*field = strings.Clone(Bounded(unescape(value))) // a session must not hold the path that it was cut out of
	}
	return ok
}

// unescape decodes %xx; what cannot be decoded is taken literally.
func unescape(s string) string {
	if d, err := url.PathUnescape(s); err == nil {
		return d
	}
	return s
}
