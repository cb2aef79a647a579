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
