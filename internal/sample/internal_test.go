package sample

// Exports for the external tests: the thresholds for many calls and for slow sessions, and the text in place of a
// missing user message.
const (
	ManyCalls          = minCostlyCalls
	SlowMS             = slowMS
	MissingUserMessage = noUserText
)

// Cut calls truncate.
func Cut(s string, n int) string { return truncate(s, n) }

// MayNamePath calls mayNamePath, which reports whether a path pattern may match args.
func MayNamePath(o *OptOut, args string) bool { return o.mayNamePath([]byte(args)) }

// Literals returns the literal of each path pattern.
func Literals(o *OptOut) []string {
	var out []string
	for _, p := range o.paths {
		out = append(out, p.literal)
	}
	return out
}
