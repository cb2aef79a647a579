package configs

import (
	"reflect"
	"strings"
	"testing"
)

// FuzzParse checks that Parse never panics, and that an accepted file's effective text parses to the same
// configuration.
func FuzzParse(f *testing.F) {
	f.Add(Reference())
	for _, seed := range []string{
		"", "a: [", "bandit: {epsilon: .nan}", "bandit:\n  epsilon: ${X}\n", "listen: 127.0.0.1:0", "? a\n: b", "upstreams: {a: {url: http://h}}",
		"keys: [{}]", "tags: {a: b}", "&a [*a]", "<<: {listen: x}", "limits: {body_bytes: 1EiB}", "---\n---\n", "\ufeffk: 1", "!!binary a", "learning: {opt_out_patterns: a,b}",
		"upstreams: {\x10: {url: http://h}}",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse(Sources{File: []byte(text)})
		if err != nil {
			if faults, ok := AsFaults(err); !ok || len(faults) == 0 || strings.TrimSpace(faults[0].Problem) == "" {
				t.Fatalf("got error %#v, want a non-empty list of faults", err)
			}
			return
		}
		if e := c.Bandit.Epsilon; !(e >= 0 && e <= 1) {
			t.Fatalf("epsilon = %v, want 0 to 1", e)
		}
		if c.Limits.BodyBytes < 1 || c.Limits.StreamIdleTimeout < 1 || c.Inject.K < 0 || len(c.Upstreams) == 0 {
			t.Fatalf("got a value out of bounds, want all values in bounds: %+v", c)
		}
		effective, err := c.Effective()
		if err != nil {
			t.Fatal(err)
		}
		// A second Parse cannot restore hidden secrets and values with ${.
		if strings.Contains(effective, hiddenText) || strings.Contains(effective, "${") {
			return
		}
		decoded, err := Parse(Sources{File: []byte(effective)})
		if err != nil || !reflect.DeepEqual(c, decoded) {
			t.Fatalf("Parse(effective text): got error %v or a different configuration, want the same configuration:\n%s", err, effective)
		}
	})
}
