package session

import (
	"crypto/sha256"
	"encoding/binary"
	"strings"

	"precept/internal/wire"
)

// EchoKey is the look-up key for an echo (a call id, an item id, an assistant text, a reply id): 8 bytes of SHA-256
// over tenant, credential and text.
type EchoKey uint64

// Scope limits where echoes are looked up. Random ids belong to the tenant, because clients refresh tokens within a
// conversation. Texts and ids that a server counts (such as "call_1") belong to the credential, so that no client finds
// a session through a text that only another client has seen. In a run, session names and repeating content also belong
// to the run.
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

// TenantEchoKey returns the key for a text that identifies the same thing for all clients in a tenant: a session name,
// a request id, a reply id, another random id.
func TenantEchoKey(tenant, key string) EchoKey {
	return echoKey(Scope{Tenant: tenant}, key, 0)
}

// echoKey returns an echo's key. key is a text such as wire.Request.EchoKeys returns, with a prefix for the kind: "t:"
// for a text, "c:" for a call id, "i:" for an item id, "r:" for a reply id. context is a hash over the conversation's
// beginning and separates equal echoes in different conversations; 0 for a unique echo.
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

// mayRepeat reports whether several conversations may have the key: texts can repeat, and ids such as "call_1" and
// "functions.bash:0".
func mayRepeat(key string) bool {
	return !strings.HasPrefix(key, "r:") && (strings.HasPrefix(key, "t:") || !looksRandom(key))
}

func isCountedID(key string) bool { return mayRepeat(key) && !strings.HasPrefix(key, "t:") }

// randomBits is the minimum number of random bits in a unique id.
const randomBits = 40

// looksRandom reports whether the id after the two-byte prefix in key looks random. Successive letters without a digit
// are a word, and add no bits. Leading zeros add none either, because fixed-width counters have them:
// call_0000000000002.
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

// IsUniqueName reports whether a name looks like a random id and so names a single conversation.
func IsUniqueName(name string) bool { return looksRandom("s:" + name) }

// maxUniqueEchoes bounds UniqueEchoes' result.
const maxUniqueEchoes = 256

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
