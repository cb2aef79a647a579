package trial

import (
	"cmp"
	"slices"
)

// Rows holds one value per key (a day, a propensity), sorted by key.
type Rows[K cmp.Ordered, V any] []Row[K, V]

// Row is the value of one key.
type Row[K cmp.Ordered, V any] struct {
	Key K
	V   V
}

// find returns the value of a key, or nil.
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

// At returns the value of a key. A missing key is added with a zero value.
func (r *Rows[K, V]) At(key K) *V {
	i, ok := r.search(key)
	if !ok {
		*r = slices.Insert(*r, i, Row[K, V]{Key: key})
	}
	return &(*r)[i].V
}
