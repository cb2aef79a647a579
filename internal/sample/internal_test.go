package sample

// Unexported constants that the tests of the public interface use: the thresholds of sessions with many calls and of
// slow sessions, and the placeholder of absent words.
const (
	ManyCalls = manyCalls
	SlowMS    = slowMS
	NoWords   = noWords
)

// Cut calls cut, which shortens a text.
func Cut(s string, n int) string { return cut(s, n) }

// Possible calls mayHit, which reports whether a path pattern may match in args.
func Possible(o *OptOut, args string) bool { return o.mayHit([]byte(args)) }

// Literals returns the literal of each path pattern.
func Literals(o *OptOut) []string {
	var out []string
	for _, p := range o.paths {
		out = append(out, p.literal)
	}
	return out
}
