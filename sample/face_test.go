package sample

// What tests of the public face need to know of the inside: the thresholds of what is slow and
// costly, how texts are cut, and the readers of what is stored.
const (
	ManyCalls = manyCalls
	SlowMS    = slowMS
)

var (
	Cut            = cut
	DecodeExchange = decodeExchange
	OrNone         = orNone
)
