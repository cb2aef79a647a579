package sqlite

import (
	"crypto/sha256"
	"encoding/binary"

	"precept/internal/session"
)

// key is the integer under which a text id is indexed. 64 bits of SHA-256 within one session do not
// collide by accident, and the ids of exchanges and samples are ours.
func key(id string) int64 {
	sum := sha256.Sum256([]byte(id))
	return int64(binary.BigEndian.Uint64(sum[:8]))
}

// echoKey places an echo key of a tenant. The keys already have the tenant hashed into them; mixing
// its number in makes tenants apart even where a caller's keys are equal.
func echoKey(tenant int64, k session.EchoKey) int64 {
	return int64(mix(uint64(k) ^ mix(uint64(tenant))))
}

// mix is splitmix64's finaliser: one to one, and every bit depends on all.
func mix(z uint64) uint64 {
	z += 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
