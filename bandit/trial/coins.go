package trial

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
)

// Purpose keeps the coins of one session apart.
type Purpose string

// The purposes.
const (
	ForControl Purpose = "control" // does the session get lessons at all
	ForHoldout Purpose = "holdout" // is a picked lesson withheld
	ForDraw    Purpose = "draw"    // the chooser's draw
	ForProbe   Purpose = "probe"   // does a benched lesson get a try
)

// Coin is a uniform number in [0,1): the top 53 bits of SHA-256(salt 0 purpose 0 session 0 slug).
// It is the same on every replica and never rolled again, which is what makes an assignment stick.
//
// Cheaper hashes will not do: FNV and CRC32 pass a balance test lesson by lesson and yet tie
// lessons together, up to a correlation of 1, because lessons of one session share all but a few
// bytes of the input.
func Coin(salt string, p Purpose, session, slug string) float64 {
	h := Hash(salt, p, session, slug)
	return float64(binary.BigEndian.Uint64(h[:8])>>11) / (1 << 53)
}

// Hash is the whole of what a coin is made of.
func Hash(salt string, p Purpose, session, slug string) [sha256.Size]byte {
	var stack [192]byte // the usual input fits: no allocation on the request path
	b := append(stack[:0], salt...)
	b = append(b, 0)
	b = append(b, p...)
	b = append(b, 0)
	b = append(b, session...)
	b = append(b, 0)
	b = append(b, slug...)
	return sha256.Sum256(b)
}

// Normal turns a uniform number into a standard normal one.
func Normal(u float64) float64 {
	const least = 0.5 / (1 << 53) // u may be 0, whose normal is minus infinity
	return math.Sqrt2 * math.Erfinv(2*max(u, least)-1)
}
