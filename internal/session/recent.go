package session

// recent is a map of the newest keys, so many at most.
type recent[K comparable, V any] struct {
	of   map[K]V
	ring ring[K]
}

func newRecent[K comparable, V any](most int) recent[K, V] {
	return recent[K, V]{map[K]V{}, ring[K]{most: most}}
}

// put sets the value of a key; the oldest one makes room for a new one.
func (r *recent[K, V]) put(k K, v V) {
	if _, known := r.of[k]; !known {
		if oldest, full := r.ring.add(k); full {
			delete(r.of, oldest)
		}
	}
	r.of[k] = v
}

// ring holds the newest entries, so many at most.
type ring[K any] struct {
	keys []K
	next int // where the next one goes
	most int
}

// add notes an entry, and gives the one that has to go for it, if one has.
func (r *ring[K]) add(k K) (oldest K, full bool) {
	if full = len(r.keys) == r.most; full {
		oldest, r.keys[r.next] = r.keys[r.next], k
	} else {
		r.keys = append(r.keys, k)
	}
	r.next = (r.next + 1) % r.most
	return oldest, full
}

// push appends to a list of so many entries; the oldest one makes room.
func push[T any](list []T, x T, most int) []T {
	if len(list) >= most {
		list = append(list[:0], list[len(list)-most+1:]...)
	}
	return append(list, x)
}
