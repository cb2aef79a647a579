package session_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"precept/internal/session"
)

func TestParsePath(t *testing.T) {
	for _, tc := range []struct {
		name, path, rest string
		want             session.PathForm
		ok               bool
	}{
		{"no path form", "/v1/chat/completions", "/v1/chat/completions", session.PathForm{}, false},
		{
			"all keys", "/p/agent=coder,run=ci,session=ci-42,role=reviewer,skill=go,upstream=x/v1/messages", "/v1/messages",
			session.PathForm{Agent: "coder", Run: "ci", Session: "ci-42", Role: "reviewer", Skill: "go", Upstream: "x"},
			true,
		},
		{"no rest", "/p/agent=coder", "/", session.PathForm{Agent: "coder"}, true},
		{"rest is only a slash", "/p/agent=coder/", "/", session.PathForm{Agent: "coder"}, true},
		{"escaped value", "/p/session=a%2Cb%2Fc%20d/v1", "/v1", session.PathForm{Session: "a,b/c d"}, true},
		{"escaped separators", "/p/agent%3Dcoder%2Csession%3Dci-42/v1", "/v1", session.PathForm{Agent: "coder", Session: "ci-42"}, true},
		{"escapes in the rest are kept", "/p/agent=a/v1/files/x%2Fy", "/v1/files/x%2Fy", session.PathForm{Agent: "a"}, true},
		{"an unknown key after a known key", "/p/agent=a,colour=red/v1", "/v1", session.PathForm{Agent: "a", Unknown: "colour"}, true},
		{"only unknown keys", "/p/colour=red/v1", "/p/colour=red/v1", session.PathForm{}, false},
		{"no pairs", "/p/v1/messages", "/p/v1/messages", session.PathForm{}, false},
		{"a key's first value counts", "/p/session=a,session=b/v1", "/v1", session.PathForm{Session: "a"}, true},
		{"bad escape is literal", "/p/session=a%zz/v1", "/v1", session.PathForm{Session: "a%zz"}, true},
		{"equals sign in a value", "/p/session=a=b/v1", "/v1", session.PathForm{Session: "a=b"}, true},
		{"keys in any case", "/p/Agent=A/v1", "/v1", session.PathForm{Agent: "A"}, true},
		{"not at the beginning", "/x/p/agent=a/v1", "/x/p/agent=a/v1", session.PathForm{}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, rest, ok := session.ParsePath(tc.path)
			if got != tc.want || rest != tc.rest || ok != tc.ok {
				t.Errorf("ParsePath(%q) = %+v, %q, %v, want %+v, %q, %v", tc.path, got, rest, ok, tc.want, tc.rest, tc.ok)
			}
		})
	}
}

func TestParsePathBoundsHostileValues(t *testing.T) {
	f, rest, ok := session.ParsePath("/p/session=a%0d%0aX-Evil:%201%00,agent=" + strings.Repeat("y", 1<<20) + "/v1")
	if !ok || rest != "/v1" {
		t.Fatalf("got rest %q, ok = %v, want /v1, true", rest, ok)
	}
	for _, v := range []string{f.Session, f.Agent} {
		if len(v) > session.MaxName || strings.ContainsAny(v, "\r\n\x00") {
			t.Errorf("got value %.40q with %d bytes, want at most %d bytes and no control characters", v, len(v), session.MaxName)
		}
	}
}

func FuzzParsePath(f *testing.F) {
	for _, s := range []string{"/p/agent=a,session=b/v1/x", "/p/", "/p/=,=/", "/p/agent%3Da/v1", "/p/session=%00/v1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, path string) {
		form, rest, ok := session.ParsePath(path)
		if !ok && (rest != path || form != session.PathForm{}) {
			t.Fatalf("ParsePath(%q) = %+v, %q, false, want an empty form and the unchanged path", path, form, rest)
		}
		if ok && (!strings.HasPrefix(rest, "/") || !strings.HasSuffix(path, rest) && rest != "/") {
			t.Fatalf("ParsePath(%q): got rest %q, want a path suffix beginning with a slash", path, rest)
		}
		for _, v := range []string{form.Agent, form.Session, form.Role, form.Skill, form.Upstream} {
			if len(v) > session.MaxName || !utf8.ValidString(v) || strings.ContainsFunc(v, unicode.IsControl) {
				t.Fatalf("ParsePath(%q): got value %q, want at most %d bytes of valid UTF-8 without control characters", path, v, session.MaxName)
			}
		}
	})
}
