//go:build race

package ledger_test

// raced says that the race detector is at work, which makes everything slower by an order of
// magnitude.
const raced = true
