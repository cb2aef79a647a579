package session

import (
	"crypto/sha256"
	"encoding/binary"
	"strings"
)

// EchoKey is what a thing that went by (a call id, an item id, an assistant text, a reply id) is
// looked up by: the first 8 bytes of SHA-256 over tenant, credential and the key's text.
type EchoKey uint64

// Scope is inside what echoes are looked up: nobody is recognised by what another key's holder saw.
// Of a run, names and what comes again in every conversation are the run's own.
type Scope struct {
	Tenant     string
	Credential uint64 // hash of the client's key
	Run        string // its name, bounded; "" outside of one
}

// whose is the scope without its run: a side call may not name it.
func (sc Scope) whose() Scope {
	sc.Run = ""
	return sc
}

// EchoKeyOf is the key of what a tenant's clients may name whatever credential they have: a
// session, a request, a reply.
func EchoKeyOf(tenant, key string) EchoKey {
	return echoKey(Scope{Tenant: tenant}, key, 0)
}

// echoKey makes the key; context tells apart what repeats from run to run, 0 where the thing is
// unique by itself.
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

// repeats says whether the thing may come again in another run: "call_1" and "functions.bash:0" do,
// and so does a text like "Done."; ids that look random do not, nor do those of replies.
func repeats(key string) bool {
	return !strings.HasPrefix(key, "r:") && (strings.HasPrefix(key, "t:") || !random(key))
}

// randomBits is how much chance an id must show before it is taken for unique.
const randomBits = 40

// random estimates the bits of chance in the id behind the two-letter prefix of key. Runs without a
// digit are words.
func random(key string) bool {
	bits, digits, lower, upper := 0.0, 0, 0, 0
	end := func() {
		letters := lower + upper
		switch {
		case digits == 0: // a word
		case letters == 0:
			bits += 3.3 * float64(digits)
		case lower > 0 && upper > 0:
			bits += 5.9 * float64(digits+letters)
		default: // maybe hex
			bits += 4 * float64(digits+letters)
		}
		digits, lower, upper = 0, 0, 0
	}
	for i := min(2, len(key)); i < len(key); i++ {
		switch c := key[i]; {
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
