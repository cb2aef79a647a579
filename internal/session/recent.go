package session

// recent is a map that keeps a bounded number of the newest keys.
type recent[K comparable, V any] struct {
	values map[K]V
	ring   ring[K]
}

func newRecent[K comparable, V any](limit int) recent[K, V] {
	return recent[K, V]{map[K]V{}, ring[K]{limit: limit}}
}

// put sets a value. In a full map, a new key replaces the oldest key.
func (r *recent[K, V]) put(k K, v V) {
	if _, known := r.values[k]; !known {
		if oldest, full := r.ring.add(k); full {
			delete(r.values, oldest)
		}
	}
	r.values[k] = v
}

// ring holds a bounded number of the newest entries.
type ring[T any] struct {
	entries []T
	next    int
	limit   int
}

func (r *ring[T]) add(x T) (oldest T, full bool) {
	full = len(r.entries) == r.limit
	if full {
		oldest, r.entries[r.next] = r.entries[r.next], x
	} else {
		r.entries = append(r.entries, x)
	}
	r.next = (r.next + 1) % r.limit
	return oldest, full
}

func appendNewest[T any](list []T, x T, limit int) []T {
	if len(list) >= limit {
		list = append(list[:0], list[len(list)-limit+1:]...)
	}
	return append(list, x)
}
