package proxy

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
)

// newID mints an id: a prefix and 12 random bytes.
func (p *Proxy) newID(prefix string) string {
	b := p.opts.entropy()
	return prefix + hex.EncodeToString(b[:12])
}

// entropy is 16 random bytes.
func (o *Options) entropy() (b [16]byte) {
	if _, err := io.ReadFull(o.Rand, b[:]); err != nil {
		// The system's random source does not fail. If it does, the time still tells ids apart.
		sum := sha256.Sum256([]byte(o.Now().String()))
		copy(b[:], sum[:])
	}
	return b
}
