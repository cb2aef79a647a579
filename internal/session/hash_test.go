package session

import (
	"hash/fnv"
	"testing"

	"pgregory.net/rapid"
)

// Records and keys contain the hash, so it must never change.
func TestHashTextIsFNV1a(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.String().Draw(t, "a"), rapid.String().Draw(t, "b")
		long := fnv.New64a()
		_, _ = long.Write([]byte(a + b))
		if got := addText(hashText(a), b); got != long.Sum64() {
			t.Errorf("addText(hashText(%q), %q) = %x, want %x", a, b, got, long.Sum64())
		}
	})
}
