package session

// recent is a map that keeps a bounded number of its newest keys.
type recent[K comparable, V any] struct {
	of   map[K]V
	ring ring[K]
}

func newRecent[K comparable, V any](most int) recent[K, V] {
	return recent[K, V]{map[K]V{}, ring[K]{most: most}}
}

// put sets the value of a key. A new key removes the oldest one.
func (r *recent[K, V]) put(k K, v V) {
	if _, known := r.of[k]; !known {
		if oldest, full := r.ring.add(k); full {
			delete(r.of, oldest)
		}
	}
	r.of[k] = v
}

// ring holds a bounded number of the newest entries.
type ring[K any] struct {
	keys []K
	next int // index of the next entry
	most int
}

// add stores an entry. If the ring is full, add returns the overwritten entry.
func (r *ring[K]) add(k K) (oldest K, full bool) {
	if full = len(r.keys) == r.most; full {
		oldest, r.keys[r.next] = r.keys[r.next], k
	} else {
		r.keys = append(r.keys, k)
	}
	r.next = (r.next + 1) % r.most
	return oldest, full
}

// push appends to a list and drops the oldest entries beyond most.
func push[T any](list []T, x T, most int) []T {
	if len(list) >= most {
		list = append(list[:0], list[len(list)-most+1:]...)
	}
	return append(list, x)
}
