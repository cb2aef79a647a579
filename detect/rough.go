package detect

import (
	"slices"

	"github.com/cespare/xxhash/v2"
)

// roughKey is equal for calls whose identity is equal (see callKey), and nearly always different
// for others. It costs a tenth: nothing is decoded but what parseLax keeps.
func roughKey(tool, args string) uint64 {
	v, _ := parseLax(args)
	return roughKeyOf(tool, args, v)
}

func roughKeyOf(tool, args string, v laxValue) uint64 {
	h := xxhash.Sum64String(tool)
	if v.kind != laxObject || len(args) > maxCanon {
		return roughText(h, args)
	}
	known := wording()
	drop := known.hasWork(slices.Values(v.keys))
	for i, k := range v.keys {
		if !drop || !known.describes(k) {
			h += roughValue(xxhash.Sum64String(k), v.vals[i]) // members may stand in any order
		}
	}
	return h
}

// roughValue goes on from h with a value of an object.
func roughValue(h uint64, v laxValue) uint64 {
	switch v.kind {
	case laxString:
		if text := v.text(); text != "" {
			return roughText(h, text)
		}
	case laxNumber:
		return roughText(h, v.raw)
	case laxArray:
		for i := range v.vals {
			h = roughValue(h*roughPrime+1, v.vals[i])
		}
	case laxObject:
		sum := uint64(0)
		for i, k := range v.keys {
			sum += roughValue(xxhash.Sum64String(k), v.vals[i])
		}
		return h*roughPrime + sum
	case laxNone, laxBool:
	}
	return h
}

const roughPrime = 1099511628211

// roughText hashes the letters and digits of a text (FNV-1a): white space, and what serialisers
// escape in different ways, is not among them.
func roughText(h uint64, s string) uint64 {
	for i := range len(s) {
		if c := s[i]; isLetter(c) || isDigit(c) {
			h = (h ^ uint64(c)) * roughPrime
		}
	}
	return h
}
