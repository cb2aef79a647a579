package trial

import (
	"math"
	"time"
)

// Day returns the bucket for t: days since 1970, UTC.
func Day(t time.Time) int32 {
	return int32(min(max(t.Unix()/86_400, math.MinInt32+1), math.MaxInt32))
}

// Advance sets the current day. Rates count the days up to this day.
func (c *Counters) Advance(day int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.day = day
}

// ClosedPerDay returns the tenant's mean number of closed sessions per day, over the last rateWindowDays days up to
// day. Days before the first closed session do not count.
func (c *Counters) ClosedPerDay(day int32) float64 {
	g := c.global
	g.mu.Lock()
	defer g.mu.Unlock()
	var n int64
	first := day
	var b Row
	for it := g.rows; it.Next(&b); {
		at := int32(b.At) //nolint:gosec // a day number fits in an int32
		if b.Group == rowDays && at > day-rateWindowDays && at <= day && b.Values[iClosed] > 0 {
			first = min(first, at)
			n += b.Values[iClosed]
		}
	}
	return float64(n) / FixedScale / float64(day-first+1)
}
