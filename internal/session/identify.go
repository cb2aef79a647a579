package session

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"precept/internal/wire"
)

// Method says how a session was recognised. The values are metric labels.
type Method string

// Methods, strongest first.
const (
	ByHeader Method = "header" // Precept-Session
	ByPath   Method = "path"   // names in the URL path; see ParsePath
	ByAgent  Method = "agent"  // an agent's own header
	ByBody   Method = "body"   // metadata, prompt_cache_key, conversation, previous_response_id
	ByEcho   Method = "echo"   // content that the agent sends back
	ByNew    Method = "new"    // a new session
	ByImport Method = "import" // an imported transcript
)

func (m Method) isClientName() bool { return m == ByHeader || m == ByPath || m == ByAgent }

// DefaultAgent is the agent for a request that names no agent.
const DefaultAgent = "default"

// Claim holds the names and switches in a request. Identify reads them without a look-up.
type Claim struct {
	Agent, Role, Skill string
	Product            string // from the User-Agent, lower case; identifies known agents
	Tags               []string
	InjectOff          bool // Precept-Inject: off
	LearnOff           bool // Precept-Learn: off, or an unknown value
	RulesOff           bool // Precept-Rules: off
	Retry              bool // the client library declares a retry

	Run       string // at most MaxName bytes; empty without a run
	Session   string // at most MaxName bytes; empty without a name
	Namespace Namespace
	Method    Method
	Previous  string // previous_response_id

	Parent          string // the parent session's name if the agent's headers declare a sub-agent, otherwise empty
	ParentNamespace Namespace
}

const (
	maxTags   = 32
	maxTagLen = 64 // bytes
)

// Identify returns a request's claim. path is the escaped URL path. req is nil if precept only forwards the request.
func Identify(h http.Header, path string, req *wire.Request) Claim {
	form, _, _ := ParsePath(path)
	product := productName(h.Get("User-Agent"))
	c := Claim{
		Agent:     cmp.Or(NormalizeName(h.Get("Precept-Agent")), form.Agent, product, DefaultAgent),
		Role:      cmp.Or(NormalizeName(h.Get("Precept-Role")), form.Role),
		Skill:     cmp.Or(NormalizeName(h.Get("Precept-Skill")), form.Skill),
		Product:   strings.ToLower(product),
		Tags:      parseTags(h.Values("Precept-Tags")),
		InjectOff: isOff(h.Get("Precept-Inject")),
		LearnOff:  optsOutOfLearning(h),
		RulesOff:  isOff(h.Get("Precept-Rules")),
		Retry:     isRetryCount(h.Get("X-Stainless-Retry-Count")),
		Run:       cmp.Or(NormalizeName(h.Get("Precept-Run")), form.Run),
	}
	if req != nil {
		c.Previous = NormalizeName(req.Hints.PreviousID)
	}
	c.setSession(h, form, req)
	c.setSubAgent(h)
	return c
}

// hasSharedName reports whether several conversations might have the name. Some applications use one cache key for all
// requests, or one session name per process.
func (c *Claim) hasSharedName() bool {
	switch c.Namespace {
	case NamespaceMetadata, NamespaceConversation:
		return true
	case NamespaceCacheKey:
		for _, known := range [...]string{"codex", "opencode", "pi"} { // a cache key per conversation
			if rest, ok := strings.CutPrefix(c.Product, known); ok && (rest == "" || strings.ContainsAny(rest[:1], "-_.")) {
				return false
			}
		}
		return true
	default:
		return false
	}
}

// HasUniqueName reports whether the claim names a single conversation.
func (c *Claim) HasUniqueName() bool { return c.Session != "" && !c.hasSharedName() }

func (c *Claim) setSession(h http.Header, form PathForm, req *wire.Request) {
	if name := NormalizeName(h.Get("Precept-Session")); name != "" {
		c.Session, c.Namespace, c.Method = name, NamespaceSession, ByHeader
		return
	}
	if form.Session != "" {
		c.Session, c.Namespace, c.Method = form.Session, NamespaceSession, ByPath
		return
	}
	if name, namespace := sessionHeader(h, c.Product); name != "" {
		c.Session, c.Namespace, c.Method = name, namespace, ByAgent
		return
	}
	if req == nil {
		return
	}
	for _, b := range [...]struct {
		name      string
		namespace Namespace
	}{
		{req.Hints.MetadataSession, NamespaceMetadata},
		{req.Hints.UserIDSession, NamespaceUserID},
		{req.Hints.PromptCacheKey, NamespaceCacheKey},
		{req.Hints.Conversation, NamespaceConversation},
	} {
		if name := NormalizeName(b.name); name != "" {
			c.Session, c.Namespace, c.Method = name, b.namespace, ByBody
			return
		}
	}
}

// setSubAgent gives a sub-agent's conversation a separate name if the agent's headers declare a sub-agent. The previous
// name becomes the parent's name. Codex and opencode give each conversation a unique name; Claude Code's agent ids are
// unique only within a session.
func (c *Claim) setSubAgent(h http.Header) {
	if c.Session == "" || c.hasSharedName() {
		return
	}
	parent, name, namespace := c.Session, "", NamespaceClaudeAgent
	if agent := h.Get("X-Claude-Code-Agent-Id"); agent != "" {
		name = c.Session + "/" + agent
	} else if h.Get("X-Codex-Parent-Thread-Id") != "" {
		name, namespace = h.Get("Thread-Id"), NamespaceCodexThread
	} else if above := h.Get("X-Parent-Session-Id"); above != "" {
		name, namespace = h.Get("X-Session-Id"), NamespaceXSession
		if c.Namespace == NamespaceXSession {
			parent = NormalizeName(above)
		}
	}
	if name = NormalizeName(name); name == "" || name == parent {
		return
	}
	c.Parent, c.ParentNamespace = parent, c.Namespace
	c.Session, c.Namespace, c.Method = name, namespace, ByAgent
}

// sessionHeader returns the session name in a known agent's header. Session-Id and Thread-Id are read only for codex,
// because other programs may use these common names in a different way.
func sessionHeader(h http.Header, product string) (string, Namespace) {
	codex := strings.HasPrefix(product, "codex")
	for _, a := range [...]struct {
		header    string // canonical spelling, so that the look-up allocates nothing
		namespace Namespace
	}{
		{"X-Claude-Code-Session-Id", NamespaceClaude},
		{"Session-Id", NamespaceCodexSession},
		{"Thread-Id", NamespaceCodexThread},
		{"X-Session-Id", NamespaceXSession},
		{"Session_id", NamespaceSessionUnderscoreID},
		{"X-Session-Affinity", NamespaceAffinity},
		{"Helicone-Session-Id", NamespaceHelicone},
		{"X-Litellm-Session-Id", NamespaceLiteLLM},
		{"Agent-Session-Id", NamespaceAgent},
	} {
		values := h[a.header]
		if len(values) == 0 || !codex && (a.namespace == NamespaceCodexSession || a.namespace == NamespaceCodexThread) {
			continue
		}
		if name := NormalizeName(values[0]); name != "" {
			return name, a.namespace
		}
	}
	return "", ""
}

// productName returns the first product in a User-Agent: codex_exec for "codex_exec/0.169.0 (...)".
func productName(ua string) string {
	ua = ua[:min(len(ua), maxTagLen)]
	rest := strings.TrimLeft(ua, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")
	return strings.Clone(ua[:len(ua)-len(rest)]) // a session must not keep the whole header
}

// parseTags returns at most maxTags distinct tags from comma-separated lists, without overlong tags.
func parseTags(lines []string) []string {
	var out []string
	for _, line := range lines {
		for tag := range strings.SplitSeq(line, ",") {
			tag = strings.TrimSpace(tag)
			same := func(t string) bool { return strings.EqualFold(t, tag) }
			if tag == "" || len(tag) > maxTagLen || !fitsHeaderLine(tag) || slices.ContainsFunc(out, same) {
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

func isOff(v string) bool {
	switch strings.ToLower(strings.TrimSpace(v)) {
	case "off", "false", "no", "0":
		return true
	}
	return false
}

// optsOutOfLearning reports whether the request opts out of learning. An unknown value counts as an opt-out, because it
// may be a misspelt opt-out.
func optsOutOfLearning(h http.Header) bool {
	return slices.ContainsFunc(h.Values("Precept-Learn"), isOff) || UnknownLearnValue(h) != ""
}

// UnknownLearnValue returns the first 64 bytes of the first Precept-Learn value that is neither on nor off.
func UnknownLearnValue(h http.Header) string {
	for _, v := range h.Values("Precept-Learn") {
		switch strings.ToLower(strings.TrimSpace(v)) {
		case "", "on", "true", "yes", "1":
			continue
		}
		if !isOff(v) {
			return v[:min(len(v), maxTagLen)]
		}
	}
	return ""
}

func isRetryCount(v string) bool {
	return v != "" && v != "0" && strings.Trim(v, "0123456789") == ""
}

// PathForm holds the names in the path, for a client that can set only a base URL:
// /p/agent=coder,run=ci-42,session=one,role=reviewer,upstream=x/v1/...
type PathForm struct {
	Agent, Run, Session, Role, Skill, Upstream string

	Unknown string // first unknown key, for a warning; at most MaxName bytes
}

// PathKeys lists the path form's keys.
const PathKeys = "agent, run, session, role, skill, upstream"

// ParsePath returns the names in the path, and the path without the /p/ segment. ok is false for any other path, and
// for /p/... without a known key, because it may be an upstream's path.
func ParsePath(path string) (PathForm, string, bool) {
	var f PathForm
	after, ok := strings.CutPrefix(path, "/p/")
	if !ok {
		return f, path, false
	}
	segment, rest, slash := strings.Cut(after, "/")
	if !strings.Contains(segment, "=") { // some clients also escape = and ,
		segment = unescape(segment)
	}
	known := false
	for pair := range strings.SplitSeq(segment, ",") {
		key, value, _ := strings.Cut(pair, "=")
		switch {
		case f.set(key, value):
			known = true
		case f.Unknown == "":
			f.Unknown = strings.Clone(NormalizeName(unescape(key)))
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

// set stores the value for a known key, and reports whether the key is known. For a repeated key, set keeps the first
// value.
func (f *PathForm) set(key, value string) bool {
	field, ok := map[string]*string{
		"agent": &f.Agent, "run": &f.Run, "session": &f.Session, "role": &f.Role, "skill": &f.Skill, "upstream": &f.Upstream,
	}[strings.ToLower(unescape(key))]
	if ok && *field == "" {
		*field = strings.Clone(NormalizeName(unescape(value))) // a substring would keep the whole path in memory
	}
	return ok
}

// unescape decodes %xx. A string with an invalid escape is returned unchanged.
func unescape(s string) string {
	if d, err := url.PathUnescape(s); err == nil {
		return d
	}
	return s
}
