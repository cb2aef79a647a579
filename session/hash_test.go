package session

import (
	"hash/fnv"
	"testing"

	"pgregory.net/rapid"
)

// The hashes are kept in records and keys: they are those of hash/fnv, in every process and
// release.
func TestHashes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.String().Draw(t, "a"), rapid.String().Draw(t, "b")
		long, short := fnv.New64a(), fnv.New32a()
		_, _ = long.Write([]byte(a + b))
		_, _ = short.Write([]byte(a))
		if got := addText(hashText(a), b); got != long.Sum64() {
			t.Errorf("%q, %q: %x, want %x", a, b, got, long.Sum64())
		}
		if got := hashName(a); got != short.Sum32() {
			t.Errorf("%q: %x, want %x", a, got, short.Sum32())
		}
	})
}
