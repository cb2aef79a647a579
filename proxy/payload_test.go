package proxy

import "testing"

// A buffer has at most four times the requested capacity, so that a small request does not hold a large buffer.
func TestPoolBufferFitsRequestedSize(t *testing.T) {
	var p pool
	p.put(nil)
	for _, n := range []int{1, 4095, 4096, 4097, 6000, 8191, 8192, 1<<20 - 1, 1 << 20, 1<<20 + 1, 1<<24 - 1, 1 << 24, 1<<24 + 1} {
		p.put(make([]byte, 0, n))
	}
	for _, n := range []int{0, 1, 4096, 4097, 8192, 8193, 1 << 20, 1<<20 + 1, 1 << 24, 1<<24 + 1} {
		for range 3 {
			b := p.get(n)
			if len(b) != 0 {
				t.Fatalf("get(%d) = %d bytes, want none", n, len(b))
			}
			if cap(b) < n {
				t.Errorf("get(%d): cap(b) = %d, want at least %d", n, cap(b), n)
			}
			if cap(b) > 4*max(n, 4096) {
				t.Errorf("get(%d): capacity = %d, want at most %d", n, cap(b), 4*max(n, 4096))
			}
		}
	}
}
