package sample

// What tests of the public face need to know of the inside: the thresholds of what is slow and
// costly, and how texts are cut.
const (
	ManyCalls = manyCalls
	SlowMS    = slowMS
)

var (
	Cut    = cut
	OrNone = orNone
)
