package session

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestBoundedTrimsAndShortensNames(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for _, c := range []struct{ name, in, want string }{
		{"plain", "ci-42", "ci-42"},
		{"trimmed", " ci-42\t", "ci-42"},
		{"empty", "  ", ""},
		{"braces, stars, slashes stay: they are hashed before they become a key", "{}:*../../etc", "{}:*../../etc"},
		{"unicode", "réunion-日本", "réunion-日本"},
		{"exactly the limit", long[:MaxName], long[:MaxName]},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Bounded(c.in); got != c.want {
				t.Errorf("Bounded(%q) = %q, want %q", c.in, got, c.want)
			}
		})
	}
	for _, hostile := range []string{long, long[:MaxName+1], "a\x00b", "a\r\nX-Evil: 1", "a\x7fb", "a\xffb", "a\u0085b"} {
		got := Bounded(hostile)
		if !strings.HasPrefix(got, "h_") || len(got) != 34 {
			t.Errorf("Bounded(%.20q) = %q, want h_ and a hash of 32 characters", hostile, got)
		}
		if got != Bounded(hostile) {
			t.Errorf("Bounded(%.20q) = %q in a second call, want %q", hostile, Bounded(hostile), got)
		}
	}
	if Bounded(long) == Bounded(long+"y") {
		t.Errorf("two different long names have the bounded form %q, want two forms", Bounded(long))
	}
}

func TestBoundedProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })).Draw(t, "name")
		b := Bounded(name)
		if len(b) > MaxName {
			t.Fatalf("the bounded name has %d bytes, want at most %d", len(b), MaxName)
		}
		if strings.ContainsAny(b, "\x00\r\n") {
			t.Fatalf("the bounded name is %q, want a name without NUL, CR and LF", b)
		}
		if Bounded(b) != b {
			t.Fatalf("Bounded(%q) = %q, want an unchanged bounded name", b, Bounded(b))
		}
		if KeyOf("t", SpaceName, name) != KeyOf("t", SpaceName, b) {
			t.Fatalf("the session IDs of %q and of its bounded form %q differ, want one ID", name, b)
		}
	})
}

func TestKeyOfDiffersBySpaceAndTenant(t *testing.T) {
	seen := map[ID]string{}
	for _, tenant := range []string{"", "a", "ab", "a\x00b"} {
		for _, space := range spaces() {
			for _, name := range []string{"", "x", "b", "ab", "namex"} {
				id := KeyOf(tenant, space, name)
				what := tenant + "|" + string(space) + "|" + name
				if other, ok := seen[id]; ok {
					t.Errorf("%q and %q have one key, want different keys", what, other)
				}
				seen[id] = what
			}
		}
	}
}

// Feedback that names a session does not know the space of the name, the source from which precept took the name.
func TestCandidatesHoldEverySpace(t *testing.T) {
	for _, space := range spaces() {
		id := KeyOf("t", space, "ses_1")
		found := false
		for _, c := range Candidates("t", "ses_1") {
			found = found || c == id
		}
		if !found {
			t.Errorf("the candidates of the name do not include its ID in space %s, want the ID: feedback would miss its session", space)
		}
	}
}

func TestIDTextRoundTrip(t *testing.T) {
	id := KeyOf("t", SpaceName, "x")
	if c := Candidates("t", id.String()); c[len(c)-1] != id {
		t.Errorf("the candidates of an ID are %v, want %v at the end", c, id)
	}
	if r := NewRecord("t", Claim{}, Resolved{ID: id}, noon); r.Identity.Name != id.String() {
		t.Errorf("a record without a name has name %q, want its ID %s", r.Identity.Name, id)
	}
	parsed, ok := ParseID(id.String())
	if !ok || parsed != id {
		t.Errorf("ParseID(%q) = %v, %v, want %v, true", id.String(), parsed, ok, id)
	}
	for _, bad := range []string{"", "zz", id.String()[1:], id.String() + "0", strings.Repeat("g", 32)} {
		if _, ok := ParseID(bad); ok {
			t.Errorf("ParseID(%q) for an invalid ID = true, want false", bad)
		}
	}
}
