package store

import (
	"time"

	"precept/sample"
)

// Lag is how long the oldest exchange that the backend does not have yet has been over; 0: nothing
// waits.
func (s *Store) Lag() time.Duration {
	since := s.state.since.Load()
	if since == 0 {
		return 0
	}
	return max(0, s.opts.Now().Sub(time.UnixMicro(since)))
}

// SpoolBytes is what the spool takes on the disk; 0 without one.
func (s *Store) SpoolBytes() int64 { return s.state.spooled.Load() }

// oldest notes since when the oldest exchange waits. Of what is in the spool alone it is the time
// at which that began. Lock the batch.
func (d *delivery) oldest(now time.Time) {
	if d.rec.spool != nil {
		d.state.spooled.Store(d.rec.spool.Bytes())
		if d.rec.lagging {
			d.state.since.CompareAndSwap(0, now.UnixMicro())
			return
		}
	}
	for _, list := range [][]sample.Exchange{d.tail.exchanges, d.rec.ready.exchanges, d.rec.next.exchanges} {
		if len(list) > 0 {
			over := list[0].At.Add(time.Duration(list[0].LatencyMS * float64(time.Millisecond)))
			d.state.since.Store(max(over.UnixMicro(), 1))
			return
		}
	}
	d.state.since.Store(0)
}
