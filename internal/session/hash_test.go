package session

import (
	"hash/fnv"
	"testing"

	"pgregory.net/rapid"
)

// Records and keys hold the hash of a text: it is the hash of hash/fnv in each process and release.
func TestHashIsFNV(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.String().Draw(t, "a"), rapid.String().Draw(t, "b")
		long := fnv.New64a()
		_, _ = long.Write([]byte(a + b))
		if got := addText(hashText(a), b); got != long.Sum64() {
			t.Errorf("%q, %q: %x, want %x", a, b, got, long.Sum64())
		}
	})
}
