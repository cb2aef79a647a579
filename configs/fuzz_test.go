package configs

import (
	"reflect"
	"strings"
	"testing"
)

// FuzzParse checks that Parse never panics. If Parse accepts a file, FuzzParse also checks that the effective text of
// the configuration parses to an equal configuration.
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
			t.Fatalf("bandit.epsilon = %v, want a value from 0 to 1", e)
		}
		if c.Limits.BodyBytes < 1 || c.Limits.StreamIdleTimeout < 1 || c.Inject.K < 0 || len(c.Upstreams) == 0 {
			t.Fatalf("got a configuration with a value out of bounds, want all values in bounds; configuration: %+v", c)
		}
		effective, err := c.Effective()
		if err != nil {
			t.Fatal(err)
		}
		// Parse cannot restore secrets that are hidden in the effective text, and would expand values that contain ${.
		if strings.Contains(effective, hiddenText) || strings.Contains(effective, "${") {
			return
		}
		decoded, err := Parse(Sources{File: []byte(effective)})
		if err != nil || !reflect.DeepEqual(c, decoded) {
			t.Fatalf("Parse of the effective text: got error %v or a different configuration, want an equal configuration; text:\n%s", err, effective)
		}
	})
}
