package session

// recent is a map that keeps a bounded number of its newest keys.
type recent[K comparable, V any] struct {
	values map[K]V
	ring   ring[K]
}

func newRecent[K comparable, V any](limit int) recent[K, V] {
	return recent[K, V]{map[K]V{}, ring[K]{limit: limit}}
}

// put sets the value of a key. A new key removes the oldest one.
func (r *recent[K, V]) put(k K, v V) {
	if _, known := r.values[k]; !known {
		if oldest, full := r.ring.add(k); full {
			delete(r.values, oldest)
		}
	}
	r.values[k] = v
}

// ring holds a bounded number of the newest entries.
type ring[K any] struct {
	keys  []K
	next  int // index of the next entry
	limit int
}

// add stores an entry. If the ring is full, add returns the overwritten entry.
func (r *ring[K]) add(k K) (oldest K, full bool) {
	if full = len(r.keys) == r.limit; full {
		oldest, r.keys[r.next] = r.keys[r.next], k
	} else {
		r.keys = append(r.keys, k)
	}
	r.next = (r.next + 1) % r.limit
	return oldest, full
}

// push appends to a list of at most limit entries, and drops the oldest entries.
func push[T any](list []T, x T, limit int) []T {
	if len(list) >= limit {
		list = append(list[:0], list[len(list)-limit+1:]...)
	}
	return append(list, x)
}
