package session

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestNormalizeNameTrimsAndShortensNames(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for _, tc := range []struct{ name, in, want string }{
		{"plain", "ci-42", "ci-42"},
		{"trimmed", " ci-42\t", "ci-42"},
		{"empty", "  ", ""},
		{"braces, stars and slashes are kept", "{}:*../../etc", "{}:*../../etc"},
		{"unicode", "réunion-日本", "réunion-日本"},
		{"exactly the limit", long[:MaxName], long[:MaxName]},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := NormalizeName(tc.in); got != tc.want {
				t.Errorf("NormalizeName(%q) = %q, want %q", tc.in, got, tc.want)
			}
		})
	}
	for _, hostile := range []string{long, long[:MaxName+1], "a\x00b", "a\r\nX-Evil: 1", "a\x7fb", "a\xffb", "a\u0085b"} {
		got := NormalizeName(hostile)
		if !strings.HasPrefix(got, "h_") || len(got) != 34 {
			t.Errorf("NormalizeName(%.20q) = %q, want h_ and 32 hash characters", hostile, got)
		}
		if got != NormalizeName(hostile) {
			t.Errorf("second NormalizeName(%.20q) = %q, want %q", hostile, NormalizeName(hostile), got)
		}
	}
	if NormalizeName(long) == NormalizeName(long+"y") {
		t.Errorf("NormalizeName(two different long names) = %q for both, want different names", NormalizeName(long))
	}
}

func TestNormalizedNamesAreShortAndStable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })).Draw(t, "name")
		b := NormalizeName(name)
		if len(b) > MaxName {
			t.Fatalf("NormalizeName(%q): got %d bytes, want at most %d", name, len(b), MaxName)
		}
		if strings.ContainsAny(b, "\x00\r\n") {
			t.Fatalf("NormalizeName(%q) = %q, want no NUL, CR or LF", name, b)
		}
		if NormalizeName(b) != b {
			t.Fatalf("NormalizeName(%q) = %q, want a normalized name unchanged", b, NormalizeName(b))
		}
		if NamedID("t", NamespaceSession, name) != NamedID("t", NamespaceSession, b) {
			t.Fatalf("NamedID(%q) differs from NamedID(%q), the normalized name, want the same ID", name, b)
		}
	})
}

func TestNamedIDDiffersByNamespaceAndTenant(t *testing.T) {
	seen := map[ID]string{}
	for _, tenant := range []string{"", "a", "ab", "a\x00b"} {
		for _, namespace := range namespaces() {
			for _, name := range []string{"", "x", "b", "ab", "namex"} {
				id := NamedID(tenant, namespace, name)
				description := tenant + "|" + string(namespace) + "|" + name
				if other, ok := seen[id]; ok {
					t.Errorf("%q and %q have the same ID, want different IDs", description, other)
				}
				seen[id] = description
			}
		}
	}
}

func TestIDsByNameCoverEveryNamespace(t *testing.T) {
	for _, namespace := range namespaces() {
		id := NamedID("t", namespace, "ses_1")
		found := false
		for _, c := range IDsByName("t", "ses_1") {
			found = found || c == id
		}
		if !found {
			t.Errorf("IDsByName(ses_1) lacks the ID in namespace %s; feedback would miss the session", namespace)
		}
	}
}

func TestIDTextRoundTrip(t *testing.T) {
	id := NamedID("t", NamespaceSession, "x")
	if c := IDsByName("t", id.String()); c[len(c)-1] != id {
		t.Errorf("IDsByName(%s) = %v, want the last ID to be %v", id, c, id)
	}
	if r := NewRecord("t", Claim{}, Resolved{ID: id}, noon); r.Identity.Name != id.String() {
		t.Errorf("record without a name: got name %q, want the ID %s", r.Identity.Name, id)
	}
	parsed, ok := ParseID(id.String())
	if !ok || parsed != id {
		t.Errorf("ParseID(%q) = %v, %v, want %v, true", id.String(), parsed, ok, id)
	}
	for _, bad := range []string{"", "zz", id.String()[1:], id.String() + "0", strings.Repeat("g", 32)} {
		if _, ok := ParseID(bad); ok {
			t.Errorf("ParseID(%q) = true, want false", bad)
		}
	}
}
