package sample

// What tests of the public face need to know of the inside: the thresholds of what is slow and
// costly, and what stands for words that nobody said.
const (
	ManyCalls = manyCalls
	SlowMS    = slowMS
	NoWords   = noWords
)

// Cut is how a text is shortened.
var Cut = cut

// Possible says whether the arguments are worth taking apart.
func Possible(o *OptOut, args string) bool { return o.possible([]byte(args)) }

// Literals are the texts of which an argument holds one if a pattern may match in it.
func Literals(o *OptOut) []string {
	var out []string
	for _, p := range o.paths {
		out = append(out, p.literal)
	}
	return out
}
