package redact

import "hash/maphash"

// maxRemembered is the maximum number of values whose numbers a Redactor remembers, maxPerSession the
// maximum of a session. Each occurrence of a further value gets a new number: the value is redacted,
// but equal values are not recognisable as equal.
const (
	maxRemembered = 1 << 16
	maxPerSession = 1 << 10
)

// Numbers are the numbers of the placeholders of one session. Numbers contain seeded 64-bit hashes of
// values, never the values, and are not safe for concurrent use.
type Numbers struct {
	seed   maphash.Seed
	limit  int
	byHash map[uint64]int
	newest map[kind]int // newest number by kind; most sessions have none
}

// NewNumbers returns the numbers of a session. highest is a result of Highest: after a restart, a
// value gets a new number instead of the number of another value.
func NewNumbers(highest map[string]int) *Numbers {
	n := &Numbers{seed: maphash.MakeSeed(), limit: maxPerSession}
	n.Raise(highest)
	return n
}

// Raise continues the numbers above highest, the numbers of another replica.
func (n *Numbers) Raise(highest map[string]int) {
	for k, name := range kindNames {
		if number := highest[name]; number > n.newest[kind(k)] {
			n.raiseTo(kind(k), number)
		}
	}
}

// raiseTo sets the newest number of a kind.
func (n *Numbers) raiseTo(k kind, number int) {
	if n.newest == nil {
		n.newest = make(map[kind]int)
	}
	n.newest[k] = number
}

// Highest returns the highest number by kind; nil without numbers.
func (n *Numbers) Highest() map[string]int {
	if len(n.newest) == 0 {
		return nil
	}
	highest := make(map[string]int, len(n.newest))
	for k, number := range n.newest {
		highest[k.String()] = number
	}
	return highest
}

// reset forgets all numbers, and keeps a small map.
func (n *Numbers) reset() {
	const small = 256
	if len(n.byHash) > small {
		n.byHash = nil
	}
	clear(n.byHash)
	clear(n.newest)
}

// number returns the number of a value. Spellings of one value have one number: the grouping of digits
// in cards, phone numbers, SSNs and IBANs, and the case of e-mail addresses and IBANs do not count.
func (n *Numbers) number(k kind, value []byte) int {
	var h maphash.Hash
	h.SetSeed(n.seed)
	_ = h.WriteByte(byte(k))
	for _, b := range value {
		switch {
		case k == card || k == phone || k == ssn:
			if !isDigit(b) {
				continue
			}
		case k == iban && !isAlnum(b):
			continue
		case k == email || k == iban:
			b = lower(b)
		}
		_ = h.WriteByte(b)
	}
	sum := h.Sum64()
	if number, ok := n.byHash[sum]; ok {
		return number
	}
	next := n.newest[k] + 1
	n.raiseTo(k, next)
	if n.byHash == nil {
		n.byHash = make(map[uint64]int)
	}
	if len(n.byHash) < n.limit {
		n.byHash[sum] = next
	}
	return next
}
