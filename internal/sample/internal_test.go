package sample

// Names of unexported constants for tests of the public interface: the thresholds of slow and
// costly sessions, and the placeholder of absent words.
const (
	ManyCalls = manyCalls
	SlowMS    = slowMS
	NoWords   = noWords
)

// Cut is how a text is shortened.
var Cut = cut

// Possible reports whether the arguments may contain an opted-out path.
func Possible(o *OptOut, args string) bool { return o.mayHit([]byte(args)) }

// Literals returns the texts of which an argument must contain one for a pattern to match.
func Literals(o *OptOut) []string {
	var out []string
	for _, p := range o.paths {
		out = append(out, p.literal)
	}
	return out
}
