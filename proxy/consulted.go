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

	"precept/bandit/trial"
	"precept/inject/bank"
	"precept/internal/file"
)

const (
	maxConsulted = 50_000 // lessons with a count
	saveInterval = 2 * time.Second
	tallyTimeout = 2 * time.Second // per tally call
)

// ConsultationTally sums all replicas' counts.
type ConsultationTally interface {
	// AddConsultations adds counts, by slug. A second call with the same batch adds nothing.
	AddConsultations(ctx context.Context, batch string, counts map[string]bank.Consultation) error
	// Consultations returns counts by slug.
	Consultations(ctx context.Context, slugs []string) (map[string]bank.Consultation, error)
}

// ConsultationCounter counts each lesson's matches, called consultations in the API, and records the newest match. With
// a tally, the counts cover all replicas. A nil ConsultationCounter counts nothing.
type ConsultationCounter struct {
	file    string
	tally   ConsultationTally
	now     func() time.Time
	started int64 // start in nanoseconds; part of each batch name

	syncMu sync.Mutex // locked before mu; one tally call at a time

	mu          sync.Mutex
	counts      map[string]bank.Consultation
	unsent      map[string]bank.Consultation // counts not yet sent to the tally
	unconfirmed map[string]bank.Consultation // sent, but not confirmed; also guarded by syncMu
	batch       int                          // number of the newest batch
	dirty       bool                         // changed or unconfirmed since the last save
}

// NewConsultationCounter returns a counter with a tally. Without a tally, the counts continue from the named file, or
// stay in memory if file is "". Even if an error is returned, the counter works, and later replaces the unreadable
// file.
func NewConsultationCounter(file string, tally ConsultationTally, now func() time.Time) (*ConsultationCounter, error) {
	c := &ConsultationCounter{file: file, tally: tally, now: now, started: now().UnixNano(), counts: map[string]bank.Consultation{}, unsent: map[string]bank.Consultation{}}
	if file == "" || tally != nil {
		return c, nil
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &c.counts)
	}
	if c.counts == nil {
		c.counts = map[string]bank.Consultation{}
	}
	return c, err
}

func (c *ConsultationCounter) countMatch(slugs []string) {
	if c == nil || len(slugs) == 0 {
		return
	}
	once := bank.Consultation{Count: 1, Last: c.now().UTC()}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range slugs {
		s = trial.LessonSlug(s)
		if _, known := c.counts[s]; !known && len(c.counts) >= maxConsulted {
			continue
		}
		c.counts[s] = c.counts[s].Add(once)
		c.dirty = true
		if c.tally != nil {
			c.unsent[s] = c.unsent[s].Add(once)
		}
	}
}

func (c *ConsultationCounter) lookup(slug string) (count int64, last time.Time) {
	if c == nil {
		return 0, time.Time{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	consultation := c.counts[slug]
	return consultation.Count, consultation.Last
}

// refresh reads lesson counts from the tally. While the tally is unreachable, the known counts stay.
func (c *ConsultationCounter) refresh(ctx context.Context, slugs []string) {
	if c == nil || c.tally == nil || len(slugs) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, tallyTimeout)
	defer cancel()
	c.syncMu.Lock()
	defer c.syncMu.Unlock()
	all, err := c.tally.Consultations(ctx, slugs)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for slug, counted := range all {
		c.counts[slug] = counted.Add(c.unconfirmed[slug]).Add(c.unsent[slug])
	}
}

// Run saves the counts until ctx is done.
func (c *ConsultationCounter) Run(ctx context.Context) error {
	ticker := time.NewTicker(saveInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			// A lost count does not make the shutdown fail. The first call might only repeat the unconfirmed batch, so
			// a second call sends the newer counts.
			for range 2 {
				_ = c.save(context.WithoutCancel(ctx))
			}
			return nil
		case <-ticker.C:
			_ = c.save(ctx) // the next tick tries again
		}
	}
}

// save writes the counts to the file, or sends the unconfirmed counts to the tally. After an error, the next call tries
// again.
func (c *ConsultationCounter) save(ctx context.Context) error {
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
		text, err = json.Marshal(c.counts)
	case c.unconfirmed == nil:
		c.unconfirmed, c.unsent = c.unsent, map[string]bank.Consultation{}
		c.batch++
	}
	c.dirty = false
	c.mu.Unlock()
	switch {
	case err != nil:
	case c.tally != nil:
		ctx, cancel := context.WithTimeout(ctx, tallyTimeout)
		defer cancel()
		err = c.tally.AddConsultations(ctx, fmt.Sprintf("%x-%d", c.started, c.batch), c.unconfirmed)
	default:
		err = file.Write(c.file, 0o600, text)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.unconfirmed = nil
	}
	c.dirty = c.dirty || err != nil || len(c.unsent) > 0
	return err
}
