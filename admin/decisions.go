package admin

import (
	"maps"
	"sync"
	"time"
)

// decisions are the lessons that a person has just decided on: what watches their place needs up to
// two seconds to see it, and the queue shall not ask twice meanwhile.
type decisions struct {
	mu sync.Mutex
	at map[string]time.Time
}

const decisionAge = 5 * time.Second

func (d *decisions) add(slug string, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.at, func(_ string, at time.Time) bool { return now.Sub(at) > decisionAge })
	d.at[slug] = now
}

func (d *decisions) recently(slug string, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	at, ok := d.at[slug]
	return ok && now.Sub(at) <= decisionAge
}
