package redact

import "hash/maphash"

// Limits on the number of values that keep their placeholder number. Any further value gets a new number at each
// occurrence.
const (
	maxNumbers        = 1 << 16 // in a Redactor without a session
	maxSessionNumbers = 1 << 10 // in a session
)

// PlaceholderNumbers assigns the numbers in one session's placeholders, such as the 1 in [REDACTED:email:1]. It stores
// seeded 64-bit hashes, never the values. PlaceholderNumbers is not safe for concurrent use.
type PlaceholderNumbers struct {
	seed          maphash.Seed
	limit         int
	byHash        map[uint64]int
	highestByKind map[kind]int // nil in most sessions
}

// NewPlaceholderNumbers returns a session's numbers. highest is what Highest returned before a restart. New numbers are
// greater, so that different values never have the same number.
func NewPlaceholderNumbers(highest map[string]int) *PlaceholderNumbers {
	n := &PlaceholderNumbers{seed: maphash.MakeSeed(), limit: maxSessionNumbers}
	n.Raise(highest)
	return n
}

// Raise makes new numbers greater than highest, another replica's highest numbers.
func (n *PlaceholderNumbers) Raise(highest map[string]int) {
	for k, name := range kindNames {
		if number := highest[name]; number > n.highestByKind[kind(k)] {
			n.raiseTo(kind(k), number)
		}
	}
}

func (n *PlaceholderNumbers) raiseTo(k kind, number int) {
	if n.highestByKind == nil {
		n.highestByKind = make(map[kind]int)
	}
	n.highestByKind[k] = number
}

// Highest returns the highest number of each kind, by the kind's name. The result is nil if there are no numbers.
func (n *PlaceholderNumbers) Highest() map[string]int {
	if len(n.highestByKind) == 0 {
		return nil
	}
	highest := make(map[string]int, len(n.highestByKind))
	for k, number := range n.highestByKind {
		highest[k.String()] = number
	}
	return highest
}

func (n *PlaceholderNumbers) reset() {
	const small = 256
	if len(n.byHash) > small {
		n.byHash = nil
	}
	clear(n.byHash)
	clear(n.highestByKind)
}

// number returns a value's placeholder number. It ignores digit grouping in cards, phone numbers, SSNs and IBANs, and
// letter case in e-mail addresses and IBANs.
func (n *PlaceholderNumbers) number(k kind, value []byte) int {
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
	next := n.highestByKind[k] + 1
	n.raiseTo(k, next)
	if n.byHash == nil {
		n.byHash = make(map[uint64]int)
	}
	if len(n.byHash) < n.limit {
		n.byHash[sum] = next
	}
	return next
}
