package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"sync"
	"time"

	"precept/file"
	"precept/lesson"
	"precept/wire"
)

// The bounds of what is remembered of consultations.
const (
	maxConsulted  = 50_000
	saveConsulted = 10 * time.Second
	shelfFresh    = time.Second
)

// Consulted counts how often lessons matched a turn, and when last, for the agents that wrote them.
// It is this server's own count: no effect and no choice rests on it. A nil one counts nothing.
type Consulted struct {
	file string
	now  func() time.Time

	mu    sync.Mutex
	by    map[string]consultation
	dirty bool
}

type consultation struct {
	Count int64     `json:"count"`
	Last  time.Time `json:"last"`
}

// NewConsulted reads what was counted before; file is where it is kept, "" for nowhere. What cannot
// be read begins anew.
func NewConsulted(file string, now func() time.Time) (*Consulted, error) {
	c := &Consulted{file: file, now: now, by: map[string]consultation{}}
	text, err := os.ReadFile(file)
	if file == "" || errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &c.by)
	}
	if c.by == nil {
		c.by = map[string]consultation{}
	}
	return c, err
}

// note counts a turn that these lessons matched.
func (c *Consulted) note(slugs []string) {
	if c == nil || len(slugs) == 0 {
		return
	}
	now := c.now().UTC()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range slugs {
		old, known := c.by[s]
		if !known && len(c.by) >= maxConsulted {
			continue
		}
		c.by[s] = consultation{old.Count + 1, now}
		c.dirty = true
	}
}

func (c *Consulted) of(slug string) (count int64, last time.Time) {
	if c == nil {
		return 0, time.Time{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.by[slug]
	return x.Count, x.Last
}

// Run keeps the counts on disk until ctx is done.
func (c *Consulted) Run(ctx context.Context) error {
	ticker := time.NewTicker(saveConsulted)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			_ = c.save() // a count that is lost at a stop is no reason to stop badly
			return nil
		case <-ticker.C:
			_ = c.save() // it is tried again
		}
	}
}

func (c *Consulted) save() error {
	c.mu.Lock()
	if !c.dirty || c.file == "" {
		c.mu.Unlock()
		return nil
	}
	text, err := json.Marshal(c.by)
	c.dirty = err != nil
	c.mu.Unlock()
	if err == nil {
		err = file.Write(c.file, 0o644, text)
	}
	if err != nil {
		c.mu.Lock()
		c.dirty = true
		c.mu.Unlock()
	}
	return err
}

// shelf is the bank as it was read last. Reading it takes a while, and an agent may ask as often as
// it likes; what this server wrote is seen at once, what others write within a second.
type shelf struct {
	mu   sync.Mutex
	book *lesson.Book
	at   time.Time
}

func (s *shelf) read(ctx context.Context, n notebook) (*lesson.Book, error) {
	o := &n.p.opts
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.book != nil && o.Now().Sub(s.at) < shelfFresh {
		return s.book, nil
	}
	book, _, err := o.Bank.List(ctx)
	if err != nil {
		o.Metrics.FailedOpen("lessons")
		n.log.Warn("the lessons could not be read for an agent; it was told to try again", "error", err)
		return nil, refusal(wire.None, http.StatusServiceUnavailable, "the lessons cannot be read just now; try again")
	}
	s.book, s.at = book, o.Now()
	return book, nil
}

func (s *shelf) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.book = nil
}
