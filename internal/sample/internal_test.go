package sample

// Names of unexported constants for tests of the public interface: the thresholds of slow and
// costly sessions, and the placeholder of absent words.
const (
	ManyCalls = manyCalls
	SlowMS    = slowMS
	NoWords   = noWords
)

// Cut is cut, which shortens a text.
func Cut(s string, n int) string { return cut(s, n) }

// Possible is mayHit.
func Possible(o *OptOut, args string) bool { return o.mayHit([]byte(args)) }

// Literals returns the literal of each path pattern.
func Literals(o *OptOut) []string {
	var out []string
	for _, p := range o.paths {
		out = append(out, p.literal)
	}
	return out
}
