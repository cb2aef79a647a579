package session_test

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"testing"

	"precept/internal/session"
	"precept/internal/wire"
)

func headers(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

func requestWithHints(h wire.Hints) *wire.Request { return &wire.Request{Hints: h} }

func TestIdentifySessionBySourcePrecedence(t *testing.T) {
	all := wire.Hints{MetadataSession: "m", UserIDSession: "u", PromptCacheKey: "k", Conversation: "c", PreviousID: "resp_1"}
	agentHeaders := []string{
		"X-Claude-Code-Session-Id", "cc", "Session-Id", "si", "Thread-Id", "ti", "X-Session-Id", "xs", "session_id", "us",
		"X-Session-Affinity", "xa", "Helicone-Session-Id", "he", "X-Litellm-Session-Id", "li", "Agent-Session-Id", "as",
		"User-Agent", "codex_exec/0.169.0",
	}
	// Request i has the session names of entry i and all later entries. The name of entry i takes precedence.
	type want struct {
		name      string
		namespace session.Namespace
		method    session.Method
	}
	order := []want{
		{"p", session.NamespaceSession, session.ByHeader},
		{"q", session.NamespaceSession, session.ByPath},
		{"cc", session.NamespaceClaude, session.ByAgent},
		{"si", session.NamespaceCodexSession, session.ByAgent},
		{"ti", session.NamespaceCodexThread, session.ByAgent},
		{"xs", session.NamespaceXSession, session.ByAgent},
		{"us", session.NamespaceSessionUnderscoreID, session.ByAgent},
		{"xa", session.NamespaceAffinity, session.ByAgent},
		{"he", session.NamespaceHelicone, session.ByAgent},
		{"li", session.NamespaceLiteLLM, session.ByAgent},
		{"as", session.NamespaceAgent, session.ByAgent},
		{"m", session.NamespaceMetadata, session.ByBody},
		{"u", session.NamespaceUserID, session.ByBody},
		{"k", session.NamespaceCacheKey, session.ByBody},
		{"c", session.NamespaceConversation, session.ByBody},
		{"", "", ""},
	}
	for i, w := range order {
		t.Run(fmt.Sprintf("%02d %s", i, w.namespace), func(t *testing.T) {
			h, path, hints := http.Header{}, "/v1/responses", wire.Hints{PreviousID: "resp_1"}
			if i == 0 {
				h.Set("Precept-Session", "p")
			}
			if i <= 1 {
				path = "/p/session=q/v1/responses"
			}
			h.Set("User-Agent", "codex_exec/0.169.0")
			for k := range 9 {
				if i-2 <= k {
					h.Set(agentHeaders[2*k], agentHeaders[2*k+1])
				}
			}
			if i <= 11 {
				hints.MetadataSession = all.MetadataSession
			}
			if i <= 12 {
				hints.UserIDSession = all.UserIDSession
			}
			if i <= 13 {
				hints.PromptCacheKey = all.PromptCacheKey
			}
			if i <= 14 {
				hints.Conversation = all.Conversation
			}
			c := session.Identify(h, path, requestWithHints(hints))
			if c.Session != w.name || c.Namespace != w.namespace || c.Method != w.method {
				t.Errorf("request %d: got Session = %q, Namespace = %q, Method = %q, want Session = %q, Namespace = %q, Method = %q", i, c.Session, c.Namespace, c.Method, w.name, w.namespace, w.method)
			}
			if c.Previous != "resp_1" {
				t.Errorf("request %d: got Previous = %q, want resp_1", i, c.Previous)
			}
		})
	}
}

func TestIdentifyNamesDeclaredSubAgents(t *testing.T) {
	for _, tc := range []struct {
		name, path      string
		h               http.Header
		session         string
		namespace       session.Namespace
		parent          string
		parentNamespace session.Namespace
	}{
		{"Claude Code", "/v1/messages", headers("X-Claude-Code-Session-Id", "s", "X-Claude-Code-Agent-Id", "a"), "s/a", session.NamespaceClaudeAgent, "s", session.NamespaceClaude},
		{"Claude Code, named by the path", "/p/session=q/v1/messages", headers("X-Claude-Code-Session-Id", "s", "X-Claude-Code-Agent-Id", "a"), "q/a", session.NamespaceClaudeAgent, "q", session.NamespaceSession},
		{"Claude Code's main agent", "/v1/messages", headers("X-Claude-Code-Session-Id", "s"), "s", session.NamespaceClaude, "", ""},
		{"Codex", "/v1/responses", headers("User-Agent", "codex_exec/0.171.0", "Session-Id", "s", "Thread-Id", "t", "X-Codex-Parent-Thread-Id", "s"), "t", session.NamespaceCodexThread, "s", session.NamespaceCodexSession},
		{"Codex' main agent", "/v1/responses", headers("User-Agent", "codex_exec/0.171.0", "Session-Id", "s", "Thread-Id", "s"), "s", session.NamespaceCodexSession, "", ""},
		{"opencode", "/v1/chat/completions", headers("X-Session-Id", "c", "X-Parent-Session-Id", "s"), "c", session.NamespaceXSession, "s", session.NamespaceXSession},
		{"opencode, named by a header", "/v1/chat/completions", headers("Precept-Session", "q", "X-Session-Id", "c", "X-Parent-Session-Id", "s"), "c", session.NamespaceXSession, "q", session.NamespaceSession},
		{"no session name", "/v1/messages", headers("X-Claude-Code-Agent-Id", "a"), "", "", "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := session.Identify(tc.h, tc.path, nil)
			if c.Session != tc.session || c.Namespace != tc.namespace || c.Parent != tc.parent || c.ParentNamespace != tc.parentNamespace {
				t.Errorf("got Session = %q (%s), Parent = %q (%s), want Session = %q (%s), Parent = %q (%s)", c.Session, c.Namespace, c.Parent, c.ParentNamespace, tc.session, tc.namespace, tc.parent, tc.parentNamespace)
			}
		})
	}
}

func TestIdentifyReadsCodexHeadersOnlyFromCodex(t *testing.T) {
	for ua, want := range map[string]string{
		"codex_exec/0.169.0": "s", "codex-tui/1 (x)": "s", "curl/8": "", "": "", "mycodex/1": "",
	} {
		c := session.Identify(headers("User-Agent", ua, "Session-Id", "s", "Thread-Id", "t"), "/v1/responses", nil)
		if c.Session != want {
			t.Errorf("User-Agent %q: got session name %q, want %q", ua, c.Session, want)
		}
	}
}

func TestIdentifyAgentFromHeadersOrPath(t *testing.T) {
	for _, tc := range []struct {
		name, path string
		h          http.Header
		want       string
	}{
		{"no source", "/v1", nil, "default"},
		{"user agent", "/v1", headers("User-Agent", "claude-cli/2.1.197 (external, sdk-cli)"), "claude-cli"},
		{"user agent with a path", "/v1", headers("User-Agent", "ai-sdk/openai-compatible/3.0.37"), "ai-sdk"},
		{"underscores", "/v1", headers("User-Agent", "codex_exec/0.169.0"), "codex_exec"},
		{"hostile user agent", "/v1", headers("User-Agent", "\x00<script>"), "default"},
		{"path before user agent", "/p/agent=coder/v1", headers("User-Agent", "curl/8"), "coder"},
		{"header before path", "/p/agent=coder/v1", headers("Precept-Agent", "lead"), "lead"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := session.Identify(tc.h, tc.path, nil).Agent; got != tc.want {
				t.Errorf("got agent %q, want %q", got, tc.want)
			}
		})
	}
}

func TestIdentifyRoleSkillTagsAndSwitches(t *testing.T) {
	h := headers("Precept-Role", "reviewer", "Precept-Skill", "go", "Precept-Tags", "a, b,,A", "Precept-Tags", "c\x01,d",
		"Precept-Inject", "Off", "Precept-Learn", "off", "X-Stainless-Retry-Count", "2", "User-Agent", "Pi/1")
	got := session.Identify(h, "/p/role=x,upstream=y/v1/messages", nil)
	want := session.Claim{
		Agent: "Pi", Role: "reviewer", Skill: "go", Product: "pi", Tags: []string{"a", "b", "d"},
		InjectOff: true, LearnOff: true, Retry: true,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got claim\n%+v\nwant\n%+v", got, want)
	}
	c := session.Identify(headers("Precept-Inject", "on", "Precept-Learn", "on", "X-Stainless-Retry-Count", "0"), "/v1", nil)
	if c.InjectOff || c.LearnOff || c.Retry {
		t.Errorf("Precept-Inject and Precept-Learn on, and retry count 0: got %+v, want InjectOff, LearnOff and Retry all false", c)
	}
}

func TestTagsAreBounded(t *testing.T) {
	var lines []string
	for i := range 1000 {
		lines = append(lines, fmt.Sprintf("t%d", i))
	}
	const limit = 32
	if got := session.Identify(http.Header{"Precept-Tags": lines}, "/v1", nil).Tags; len(got) != limit || !slices.Equal(got, lines[:limit]) {
		t.Errorf("1,000 tags in the request: got %d tags, want the first %d", len(got), limit)
	}
}

func BenchmarkIdentify(b *testing.B) {
	h := headers("User-Agent", "opencode/1.18.33 ai-sdk/provider", "X-Session-Id", "ses_0123456789abcdef", "Content-Type", "application/json")
	req := requestWithHints(wire.Hints{PromptCacheKey: "ses_0123456789abcdef"})
	b.ReportAllocs()
	for b.Loop() {
		c := session.Identify(h, "/v1/chat/completions", req)
		session.NamedID("default", c.Namespace, c.Session)
	}
}
