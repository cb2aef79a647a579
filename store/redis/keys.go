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

// common is the tag of what belongs to no tenant. A tenant's is 16 hex digits.
const common = "precept"

// base is what all keys of a tenant begin with. The tenant's name is hashed: it may be anything.
func (s *Store) base(tenant string) string {
	sum := sha256.Sum256([]byte("precept tenant\x00" + tenant))
	return s.prefix + ":{" + hex.EncodeToString(sum[:8]) + "}:"
}

// shared is a key of what belongs to no tenant.
func (s *Store) shared(name string) string { return s.prefix + ":{" + common + "}:" + name }

// digest is the 8 bytes under which a text id is kept: 64 bits of SHA-256 do not collide by
// accident within one session.
func digest(id string) string {
	sum := sha256.Sum256([]byte(id))
	return string(sum[:8])
}

// bucket is the hash in which a small thing stands; scripts do the same (common.lua).
func bucket(kind, key string) string {
	return fmt.Sprintf("%s:%04x", kind, (int(key[6])<<8|int(key[7]))%16384)
}

// ordered is n in eight bytes that compare like n.
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

// Times are kept as microseconds. The zero time survives.
func micros(t time.Time) int64     { return t.UnixMicro() }
func fromMicros(n int64) time.Time { return time.UnixMicro(n).UTC() }

// score is a time as a sorted set holds it.
func score(t time.Time) string { return strconv.FormatInt(micros(t), 10) }

func toID(b string) (id session.ID) {
	copy(id[:], b)
	return id
}
