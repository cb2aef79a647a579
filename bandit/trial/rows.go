package trial

import (
	"cmp"
	"slices"
)

// Rows is what was counted under each key (a day, a propensity), in the order of the keys.
type Rows[K cmp.Ordered, V any] []Row[K, V]

// Row is what was counted under one key.
type Row[K cmp.Ordered, V any] struct {
	Key K
	V   V
}

// find is the sums of a key; nil: there are none.
func (r Rows[K, V]) find(key K) *V {
	i, ok := r.search(key)
	if !ok {
		return nil
	}
	return &r[i].V
}

func (r Rows[K, V]) search(key K) (int, bool) {
	return slices.BinarySearchFunc(r, key, func(x Row[K, V], key K) int { return cmp.Compare(x.Key, key) })
}

// At is the sums of a key; a new key has none yet.
func (r *Rows[K, V]) At(key K) *V {
	i, ok := r.search(key)
	if !ok {
		*r = slices.Insert(*r, i, Row[K, V]{Key: key})
	}
	return &(*r)[i].V
}
