package trial

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
)

// Purpose separates the random decisions about one session.
type Purpose string

// The purposes.
const (
	ForControl Purpose = "control" // no lessons for the session
	ForHoldout Purpose = "holdout" // a pick is withheld
	ForDraw    Purpose = "draw"    // random draw by the chooser, for Thompson sampling
	ForProbe   Purpose = "probe"   // a benched lesson (with expected harm) is tried again
	ForRule    Purpose = "rule"    // a rules file section is cut
)

// Coin returns a uniform number in [0,1): the top 53 bits of the SHA-256 of salt, purpose, session and slug, joined by
// zero bytes. The number is identical on every replica and after every restart.
//
// Cheaper hashes do not work: with FNV or CRC32, the correlation between the coins for two lessons can reach 1, because
// the inputs differ only in a few bytes.
func Coin(salt string, p Purpose, session, slug string) float64 {
	h := CoinHash(salt, p, session, slug)
	return float64(binary.BigEndian.Uint64(h[:8])>>11) / (1 << 53)
}

// CoinHash returns the digest that Coin truncates.
func CoinHash(salt string, p Purpose, session, slug string) [sha256.Size]byte {
	var stack [192]byte // typical inputs need no allocation
	b := append(stack[:0], salt...)
	b = append(b, 0)
	b = append(b, p...)
	b = append(b, 0)
	b = append(b, session...)
	b = append(b, 0)
	b = append(b, slug...)
	return sha256.Sum256(b)
}

// NormalQuantile returns the standard normal quantile at u.
func NormalQuantile(u float64) float64 {
	const smallest = 0.5 / (1 << 53) // replaces 0, where the quantile is minus infinity
	return math.Sqrt2 * math.Erfinv(2*max(u, smallest)-1)
}
