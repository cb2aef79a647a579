package bank

import "time"

// Consultation counts the matches of a lesson and has the time of the last match, for the authors
// of the lesson. No effect and no choice uses the count.
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
