//go:build !race

package harness

// Race reports whether the tests, and so the program, run with the race detector.
const Race = false
