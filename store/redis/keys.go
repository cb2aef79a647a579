package redis

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strconv"
	"time"

	"precept/internal/session"
)

const commonTag = "precept" // hash tag in the keys without a tenant

func (s *Store) commonKey(name string) string { return s.prefix + ":{" + commonTag + "}:" + name }

// digest returns the first 8 bytes of an id's SHA-256, the key for values with a text id.
func digest(id string) string {
	sum := sha256.Sum256([]byte(id))
	return string(sum[:8])
}

// bucket returns the key of the hash that holds an index entry. kind is "e" for an echo key and "i" for a sample id.
// Redis stores small hashes compactly, so a bucket has few entries. common.lua computes the same key.
func (k keyspace) bucket(kind, key string) string {
	if k.tenantArg == "" {
		return fmt.Sprintf("%s%s:%04x", k.base, kind, (int(key[6])<<8|int(key[7]))%16384)
	}
	return fmt.Sprintf("%s%s:%02x", k.base, kind, key[6]%64)
}

// encodeOrdered encodes n in eight bytes that sort like numbers.
func encodeOrdered(n int64) string {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(n)^1<<63)
	return string(b[:])
}

func decodeOrdered(b string) int64 { return int64(binary.BigEndian.Uint64([]byte(b)) ^ 1<<63) }

func encodeEchoKey(k session.EchoKey) string {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(k))
	return string(b[:])
}

func micros(t time.Time) int64     { return t.UnixMicro() }
func fromMicros(n int64) time.Time { return time.UnixMicro(n).UTC() }

func timeScore(t time.Time) string { return strconv.FormatInt(micros(t), 10) }

func idFromBytes(b string) (id session.ID) {
	copy(id[:], b)
	return id
}
