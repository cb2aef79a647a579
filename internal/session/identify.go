package session

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"precept/internal/wire"
)

// Method is the way in which a session was recognised. The values are metric labels.
type Method string

// The methods, strongest first.
const (
	ByHeader Method = "header" // Precept-Session
	ByPath   Method = "path"   // the path form
	ByAgent  Method = "agent"  // an agent's own session header
	ByBody   Method = "body"   // metadata, prompt_cache_key, conversation, previous_response_id
	ByEcho   Method = "echo"   // content that the agent sends back
	ByNew    Method = "new"    // none of the above: a new session
	ByImport Method = "import" // an imported transcript
)

// named reports whether the client gave a name. Every request of the session then repeats the name.
func (m Method) named() bool { return m == ByHeader || m == ByPath || m == ByAgent }

// DefaultAgent is the agent of a request without a name of an agent.
const DefaultAgent = "default"

// Claim holds the names and switches of a request, before any look-up.
type Claim struct {
	Agent, Role, Skill string
	Product            string // product of the User-Agent, lower case; identifies known agents
	Tags               []string
	InjectOff          bool // Precept-Inject: off
	LearnOff           bool // Precept-Learn: off, or an unknown value
	RulesOff           bool // Precept-Rules: off
	Retry              bool // the client library declares a retry

	Run      string // name of the run, bounded; empty without a run
	Session  string // claimed name, bounded; empty without a name
	Space    Space
	Method   Method
	Previous string // previous_response_id
}

// Bounds of the tags of a request.
const (
	maxTags   = 32
	maxTagLen = 64 // bytes
)

// Identify returns the claim of a request. path is the escaped path as requested. req is nil for a
// request that precept only forwards.
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
		LearnOff:  learnOff(h),
		RulesOff:  off(h.Get("Precept-Rules")),
		Retry:     retried(h.Get("X-Stainless-Retry-Count")),
		Run:       cmp.Or(Bounded(h.Get("Precept-Run")), form.Run),
	}
	if req != nil {
		c.Previous = Bounded(req.Hints.PreviousID)
	}
	c.findName(h, form, req)
	return c
}

// sharesName reports whether several conversations may share the name: an application may set one cache key
// for all requests, or one session for a whole process. The agents in the list below use the cache key
// as the name of a conversation.
func (c *Claim) sharesName() bool {
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

// Named reports whether the claim has the name of a single conversation.
func (c *Claim) Named() bool { return c.Session != "" && !c.sharesName() }

// findName sets Session, Space and Method from the most reliable source that names the session.
func (c *Claim) findName(h http.Header, form PathForm, req *wire.Request) {
	if name := Bounded(h.Get("Precept-Session")); name != "" {
		c.Session, c.Space, c.Method = name, SpaceName, ByHeader
		return
	}
	if form.Session != "" {
		c.Session, c.Space, c.Method = form.Session, SpaceName, ByPath
		return
	}
	if name, space := sessionHeader(h, c.Product); name != "" {
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

// sessionHeader returns the session name in the header of a known agent, and the name's space. session-id and
// thread-id are common names, and are read only for codex.
func sessionHeader(h http.Header, product string) (string, Space) {
	codex := strings.HasPrefix(product, "codex")
	for _, a := range [...]struct {
		header string // canonical, so that a look-up allocates nothing
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

// product returns the name of the first product in a User-Agent: codex_exec for "codex_exec/0.169.0
// (...)".
func product(ua string) string {
	ua = ua[:min(len(ua), maxTagLen)]
	rest := strings.TrimLeft(ua, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")
	return strings.Clone(ua[:len(ua)-len(rest)]) // a session must not keep the whole header in memory
}

// tags returns the tags in comma-separated lists: at most maxTags, without repetitions and without tags
// that are too long.
func tags(lines []string) []string {
	var out []string
	for _, line := range lines {
		for tag := range strings.SplitSeq(line, ",") {
			tag = strings.TrimSpace(tag)
			same := func(t string) bool { return strings.EqualFold(t, tag) }
			if tag == "" || len(tag) > maxTagLen || !isClean(tag) || slices.ContainsFunc(out, same) {
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

// off reports whether a switch is off. An unknown value changes nothing.
func off(v string) bool {
	switch strings.ToLower(strings.TrimSpace(v)) {
	case "off", "false", "no", "0":
		return true
	}
	return false
}

// learnOff reports whether Precept-Learn opts out. An unknown value opts out, because a misspelt opt-out must not lead
// to stored text.
func learnOff(h http.Header) bool {
	return slices.ContainsFunc(h.Values("Precept-Learn"), off) || UnknownLearn(h) != ""
}

// UnknownLearn returns the first value of Precept-Learn that is neither on nor off, at most 64 bytes.
func UnknownLearn(h http.Header) string {
	for _, v := range h.Values("Precept-Learn") {
		switch strings.ToLower(strings.TrimSpace(v)) {
		case "", "on", "true", "yes", "1":
			continue
		}
		if !off(v) {
			return v[:min(len(v), maxTagLen)]
		}
	}
	return ""
}

// retried reads the retry count of the common client libraries.
func retried(v string) bool {
	return v != "" && v != "0" && strings.Trim(v, "0123456789") == ""
}

// PathForm holds the names in the path, for a client that can set only a base URL:
// /p/agent=coder,run=ci-42,session=one,role=reviewer,upstream=x/v1/...
type PathForm struct {
	Agent, Run, Session, Role, Skill, Upstream string

	Unknown string // the first unknown key next to a known key, such as a misspelt name; at most 256 bytes
}

// PathKeys lists the keys of the path form.
const PathKeys = "agent, run, session, role, skill, upstream"

// ParsePath splits the escaped path into the names and the path without the /p/ segment. ok is
// false for another path, which is returned unchanged: /p/... without a known key may belong to an
// upstream.
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
		switch {
		case f.set(key, value):
			known = true
		case f.Unknown == "":
			f.Unknown = strings.Clone(Bounded(unescape(key)))
		}
	}
	if !known {
		return PathForm{}, path, false
	}
	if !slash {
		return f, "/", true
	}
	return f, "/" + rest, true
}

// set stores a pair, and reports whether the key is known. The first pair of a key counts.
func (f *PathForm) set(key, value string) bool {
	field, ok := map[string]*string{
		"agent": &f.Agent, "run": &f.Run, "session": &f.Session, "role": &f.Role, "skill": &f.Skill, "upstream": &f.Upstream,
	}[strings.ToLower(unescape(key))]
	if ok && *field == "" {
		*field = strings.Clone(Bounded(unescape(value))) // a session must not keep the whole path in memory
	}
	return ok
}

// unescape decodes %xx. Text with an invalid escape stays literal.
func unescape(s string) string {
	if d, err := url.PathUnescape(s); err == nil {
		return d
	}
	return s
}
