package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"precept/inject/bank"
	"precept/internal/file"
)

// The bounds of what is remembered of consultations.
const (
	maxConsulted  = 50_000
	saveConsulted = 2 * time.Second
	tallyLimit    = 2 * time.Second // for one word with the tally
)

// Tally keeps consultations where replicas share it.
type Tally interface {
	// Consult counts a batch, once however often it is told under that name.
	Consult(ctx context.Context, batch string, met map[string]bank.Consultation) error
	Consultations(ctx context.Context, slugs []string) (map[string]bank.Consultation, error)
}

// Consulted counts how often lessons matched a turn, and when last, for the agents that wrote them.
// With a tally the count is the fleet's, else this server's own. A nil one counts nothing.
type Consulted struct {
	file  string
	tally Tally
	now   func() time.Time
	begun int64 // when, in nanoseconds: what the batches of each replica are told apart by

	syncMu sync.Mutex // one exchange with the tally at a time; taken before mu

	mu    sync.Mutex
	by    map[string]bank.Consultation // all that is known of
	fresh map[string]bank.Consultation // what the tally has not been told
	sent  map[string]bank.Consultation // what it was told, and has not answered; syncMu guards it, too
	batch int                          // the number of what was sent last
	dirty bool
}

// NewConsulted counts with a tally, or where that is nil on from what was counted before; file is
// where it is kept, "" for nowhere. What cannot be read begins anew.
func NewConsulted(file string, tally Tally, now func() time.Time) (*Consulted, error) {
	c := &Consulted{file: file, tally: tally, now: now, begun: now().UnixNano(), by: map[string]bank.Consultation{}, fresh: map[string]bank.Consultation{}}
	if file == "" || tally != nil {
		return c, nil
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &c.by)
	}
	if c.by == nil {
		c.by = map[string]bank.Consultation{}
	}
	return c, err
}

// note counts a turn that these lessons matched.
func (c *Consulted) note(slugs []string) {
	if c == nil || len(slugs) == 0 {
		return
	}
	once := bank.Consultation{Count: 1, Last: c.now().UTC()}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range slugs {
		if _, known := c.by[s]; !known && len(c.by) >= maxConsulted {
			continue
		}
		c.by[s] = c.by[s].Add(once)
		if c.dirty = true; c.tally != nil {
			c.fresh[s] = c.fresh[s].Add(once)
		}
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

// learn asks the tally what all replicas have counted of these lessons. While it is away, what is
// known has to do.
func (c *Consulted) learn(ctx context.Context, slugs []string) {
	if c == nil || c.tally == nil || len(slugs) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, tallyLimit)
	defer cancel()
	c.syncMu.Lock()
	defer c.syncMu.Unlock()
	all, err := c.tally.Consultations(ctx, slugs)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for slug, x := range all {
		c.by[slug] = x.Add(c.sent[slug]).Add(c.fresh[slug])
	}
}

// Run keeps the counts until ctx is done.
func (c *Consulted) Run(ctx context.Context) error {
	ticker := time.NewTicker(saveConsulted)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			// A count that is lost at a stop is no reason to stop badly. What the tally has not
			// answered goes first, and then the rest.
			for range 2 {
				_ = c.save(context.WithoutCancel(ctx))
			}
			return nil
		case <-ticker.C:
			_ = c.save(ctx) // it is tried again
		}
	}
}

func (c *Consulted) save(ctx context.Context) error {
	c.syncMu.Lock()
	defer c.syncMu.Unlock()
	c.mu.Lock()
	if !c.dirty || c.file == "" && c.tally == nil {
		c.mu.Unlock()
		return nil
	}
	var text []byte
	var err error
	switch {
	case c.tally == nil:
		text, err = json.Marshal(c.by)
	case c.sent == nil:
		c.sent, c.fresh = c.fresh, map[string]bank.Consultation{}
		c.batch++
	}
	c.dirty = false
	c.mu.Unlock()
	switch {
	case err != nil:
	case c.tally != nil:
		ctx, cancel := context.WithTimeout(ctx, tallyLimit)
		defer cancel()
		err = c.tally.Consult(ctx, fmt.Sprintf("%x-%d", c.begun, c.batch), c.sent)
	default:
		err = file.Write(c.file, 0o644, text)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.sent = nil
	}
	c.dirty = c.dirty || err != nil || len(c.fresh) > 0
	return err
}
