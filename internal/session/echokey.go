package session

import (
	"crypto/sha256"
	"encoding/binary"
	"strings"

	"precept/internal/wire"
)

// EchoKey is the look-up key for an echo: content that an agent sends back, such as a call id, an item id, an assistant
// text or a reply id. It is 8 bytes of SHA-256 over tenant, credential and content.
type EchoKey uint64

// Scope limits which sessions an echo can find. A random id finds all the tenant's sessions, because a client may
// refresh its token within a conversation. A text or a counted id (such as "call_1") finds only the credential's
// sessions, so that no client gets into another client's session through a common text. In a run, session names and
// content that may repeat find only the run's sessions.
type Scope struct {
	Tenant     string
	Credential uint64 // hash over the client's key, or over a signed token's issuer and subject
	Run        string // at most MaxName bytes; empty outside a run
}

func (sc Scope) anyCredential() Scope {
	sc.Credential = 0
	return sc
}

func (sc Scope) withoutRun() Scope {
	sc.Run = ""
	return sc
}

// TenantEchoKey returns the key for a text that means the same for all clients in a tenant, such as a request id or
// another random id.
func TenantEchoKey(tenant, key string) EchoKey {
	return echoKey(Scope{Tenant: tenant}, key, 0)
}

// echoKey returns an echo's key. key is the content in the form that wire.Request.EchoKeys returns, with a prefix for
// the kind: "t:" for a text, "c:" for a call id, "i:" for an item id, "r:" for a reply id. context is a hash over the
// conversation's beginning, because different conversations may have the same echo. For a unique echo, context is 0.
func echoKey(sc Scope, key string, context uint64) EchoKey {
	var buf [256]byte
	b := binary.AppendUvarint(buf[:0], uint64(len(sc.Tenant)))
	b = append(b, sc.Tenant...)
	b = binary.LittleEndian.AppendUint64(b, sc.Credential)
	b = binary.LittleEndian.AppendUint64(b, context)
	b = append(b, key...)
	sum := sha256.Sum256(b)
	return EchoKey(binary.LittleEndian.Uint64(sum[:8]))
}

// mayRepeat reports whether several conversations may have the key. This is the case for a text, and for an id such as
// "call_1" or "functions.bash:0".
func mayRepeat(key string) bool {
	return !strings.HasPrefix(key, "r:") && (strings.HasPrefix(key, "t:") || !looksRandom(key))
}

// isCountedID reports whether key is an id from a counter, such as "call_1".
func isCountedID(key string) bool { return mayRepeat(key) && !strings.HasPrefix(key, "t:") }

const randomBits = 40 // minimum number of random bits in a unique id

// looksRandom reports whether the id after the two-byte prefix in key has enough random bits. Successive letters
// without a digit count as a word, and add no bits. Leading zeros add none either, because fixed-width counters have
// them: call_0000000000002.
func looksRandom(key string) bool {
	bits, digits, lower, upper := 0.0, 0, 0, 0
	end := func() {
		letters := lower + upper
		switch {
		case digits == 0: // the letters are a word
		case letters == 0:
			bits += 3.3 * float64(digits) // log2(10)
		case lower > 0 && upper > 0:
			bits += 5.9 * float64(digits+letters) // log2(62)
		default: // the letters may be hex digits
			bits += 4 * float64(digits+letters)
		}
		digits, lower, upper = 0, 0, 0
	}
	for i := min(2, len(key)); i < len(key); i++ {
		switch c := key[i]; {
		case c == '0' && digits+lower+upper == 0:
		case c >= '0' && c <= '9':
			digits++
		case c >= 'a' && c <= 'z':
			lower++
		case c >= 'A' && c <= 'Z':
			upper++
		default:
			end()
		}
	}
	end()
	return bits >= randomBits
}

// IsUniqueName reports whether a name looks like a random id, which only one conversation has.
func IsUniqueName(name string) bool { return looksRandom("s:" + name) }

const maxUniqueEchoes = 256 // UniqueEchoes' result

// UniqueEchoes returns keys for the random ids in a conversation. The keys do not depend on the credential, so an
// import without the credential finds the recorded session.
func UniqueEchoes(tenant string, req *wire.Request) (keys []EchoKey) {
	for i := range req.Len() {
		for _, k := range req.EchoKeys(i) {
			if mayRepeat(k) {
				continue
			}
			if keys = append(keys, TenantEchoKey(tenant, k)); len(keys) == maxUniqueEchoes {
				return keys
			}
		}
	}
	return keys
}
