package sample

// These constants give tests the thresholds for costly calls and slow turns, and the text that replaces a missing user
// message.
const (
	ManyCalls          = minCostlyCalls
	SlowMS             = slowMS
	MissingUserMessage = noUserText
)

func Cut(s string, n int) string { return truncate(s, n) }

func MayNamePath(o *OptOut, args string) bool { return o.mayNamePath([]byte(args)) }

func Literals(o *OptOut) []string {
	var out []string
	for _, p := range o.paths {
		out = append(out, p.literal)
	}
	return out
}
