package bank

import "time"

// Consultation is how often a lesson matched a turn, and when last. It is for those who wrote the
// lesson: no effect and no choice rests on it.
type Consultation struct {
	Count int64     `json:"count"`
	Last  time.Time `json:"last"`
}

// Add takes more of them in.
func (c Consultation) Add(o Consultation) Consultation {
	c.Count += o.Count
	if o.Last.After(c.Last) {
		c.Last = o.Last
	}
	return c
}
