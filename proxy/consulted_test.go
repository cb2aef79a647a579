package proxy

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	"precept/inject/bank"
)

// lossyTally stores each batch once. If loseAnswer is set, Consult returns an error after it has stored the batch.
type lossyTally struct {
	loseAnswer bool
	batches    map[string]map[string]bank.Consultation
}

func (d *lossyTally) Consult(_ context.Context, batch string, counts map[string]bank.Consultation) error {
	if d.batches[batch] == nil {
		d.batches[batch] = maps.Clone(counts)
	}
	if d.loseAnswer {
		return errors.New("the connection was reset")
	}
	return nil
}

func (d *lossyTally) Consultations(_ context.Context, slugs []string) (map[string]bank.Consultation, error) {
	out := map[string]bank.Consultation{}
	for _, counts := range d.batches {
		for _, slug := range slugs {
			out[slug] = out[slug].Add(counts[slug])
		}
	}
	return out, nil
}

// If the response to a batch is lost, the batch is sent again with the same name and without newer counts, so that no
// count is lost or added twice. Batches of another replica have other names.
func TestRetriedBatchIsCountedOnce(t *testing.T) {
	now := time.Date(2032, 3, 4, 12, 0, 0, 0, time.UTC)
	tally := &lossyTally{batches: map[string]map[string]bank.Consultation{}}
	open := func(start time.Time) *Consulted {
		c, err := NewConsulted("", tally, func() time.Time { return start })
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	one, other := open(now), open(now.Add(time.Nanosecond))
	one.countMatch([]string{"a", "b"})
	tally.loseAnswer = true
	if err := one.save(t.Context()); err == nil {
		t.Fatal("save returned no error, although the response was lost")
	}
	one.countMatch([]string{"a"})
	tally.loseAnswer = false
	for range 3 { // sends the batch again, then the newer counts, then nothing
		if err := one.save(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	other.countMatch([]string{"a"})
	if err := other.save(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(tally.batches) != 3 {
		t.Errorf("got %d stored batches %v, want 3", len(tally.batches), tally.batches)
	}
	one.refresh(t.Context(), []string{"a", "b"})
	for slug, want := range map[string]int64{"a": 3, "b": 1} {
		if n, _ := one.lookup(slug); n != want {
			t.Errorf("lookup(%q) = %d, want %d", slug, n, want)
		}
	}
}
