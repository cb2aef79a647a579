package redis

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"

	"precept/internal/session"
)

// common is the tag of keys that belong to no tenant. The tag of a tenant is 16 hex digits.
const common = "precept"

// base returns the prefix of a tenant's keys. The name of the tenant is hashed, because the name
// may hold any character.
func (s *Store) base(tenant string) string {
	sum := sha256.Sum256([]byte("precept tenant\x00" + tenant))
	return s.prefix + ":{" + hex.EncodeToString(sum[:8]) + "}:"
}

// commonKey returns a key that belongs to no tenant.
func (s *Store) commonKey(name string) string { return s.prefix + ":{" + common + "}:" + name }

// digest returns the 8 bytes by which a text id is stored: 64 bits of SHA-256 do not collide by
// accident within one session.
func digest(id string) string {
	sum := sha256.Sum256([]byte(id))
	return string(sum[:8])
}

// bucket returns the hash that holds a small value. The scripts compute the same (common.lua).
func bucket(kind, key string) string {
	return fmt.Sprintf("%s:%04x", kind, (int(key[6])<<8|int(key[7]))%16384)
}

// ordered encodes n in eight bytes that compare like n.
func ordered(n int64) string {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(n)^1<<63)
	return string(b[:])
}

func fromOrdered(b string) int64 { return int64(binary.BigEndian.Uint64([]byte(b)) ^ 1<<63) }

func echoBytes(k session.EchoKey) string {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(k))
	return string(b[:])
}

// Times are stored as microseconds. The zero time survives.
func micros(t time.Time) int64     { return t.UnixMicro() }
func fromMicros(n int64) time.Time { return time.UnixMicro(n).UTC() }

// score returns a time as the score of a sorted set.
func score(t time.Time) string { return strconv.FormatInt(micros(t), 10) }

func toID(b string) (id session.ID) {
	copy(id[:], b)
	return id
}
