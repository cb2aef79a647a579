package trial

import (
	"math"
	"time"
)

// Day is the bucket of a moment.
func Day(t time.Time) int32 {
	return int32(min(max(t.Unix()/86_400, math.MinInt32+1), math.MaxInt32))
}

// Advance says what day it is: rates are taken over the days before it.
func (c *Counters) Advance(day int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.day = day
}

// ClosedPerDay is how many of the tenant's sessions closed in a day, over the weeks before one.
func (c *Counters) ClosedPerDay(day int32) float64 {
	g := c.global
	g.mu.Lock()
	defer g.mu.Unlock()
	var n int64
	first := day
	for i := range g.days {
		b := &g.days[i]
		if b.Key > day-rateWindow && b.Key <= day && b.V[iClosed] > 0 {
			first = min(first, b.Key)
			n += b.V[iClosed]
		}
	}
	return float64(n) / One / float64(day-first+1)
}
