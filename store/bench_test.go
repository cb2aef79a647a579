package store

import (
	"fmt"
	"testing"

	"precept/internal/session"
)

// A full batch on its way to the disk: redaction, encoding, and the transaction.
func BenchmarkAdmitAndFlush(b *testing.B) {
	r := newRig(b, nil)
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		for i := range flushAt {
			name := fmt.Sprint("s", i%50)
			if n == 0 && i < 50 {
				r.begin(us, name, picked(true))
			}
			r.note(session.EchoKey(n*flushAt+i), session.KeyOf(us, session.SpaceName, name))
			r.admit(Turn{Exchange: exchange(us, name, n*flushAt+i, r.clk.now()), Size: 100})
		}
		r.flush(b.Context())
	}
	if r.Tally.Exchanges.Load() == 0 || len(r.failed()) > 0 {
		b.Fatal("nothing was written")
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(r.Tally.Exchanges.Load()), "ns/turn")
}

// What a request pays for its session.
func BenchmarkAcquireAndRelease(b *testing.B) {
	r := newRig(b, nil)
	id := r.begin(us, "s", picked(true))
	b.ReportAllocs()
	for b.Loop() {
		ses, _ := r.Acquire(b.Context(), us, id)
		r.Release(ses, Decided)
	}
}
