package proxy

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	"precept/inject/bank"
)

// lossyTally stores each batch. With loseAnswer, it then returns an error, as if the response had been lost.
type lossyTally struct {
	loseAnswer bool
	batches    map[string]map[string]bank.Consultation
}

func (l *lossyTally) AddConsultations(_ context.Context, batch string, counts map[string]bank.Consultation) error {
	if l.batches[batch] == nil {
		l.batches[batch] = maps.Clone(counts)
	}
	if l.loseAnswer {
		return errors.New("the connection was reset")
	}
	return nil
}

func (l *lossyTally) Consultations(_ context.Context, slugs []string) (map[string]bank.Consultation, error) {
	out := map[string]bank.Consultation{}
	for _, counts := range l.batches {
		for _, slug := range slugs {
			out[slug] = out[slug].Add(counts[slug])
		}
	}
	return out, nil
}

// If a batch gets no response, the counter sends the batch again under the same name, so that the tally counts the
// batch only once. Replicas use different batch names.
func TestConsultationsInRetriedBatchCountOnce(t *testing.T) {
	now := time.Date(2032, 3, 4, 12, 0, 0, 0, time.UTC)
	tally := &lossyTally{batches: map[string]map[string]bank.Consultation{}}
	open := func(start time.Time) *ConsultationCounter {
		c, err := NewConsultationCounter("", tally, func() time.Time { return start })
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	replica, otherReplica := open(now), open(now.Add(time.Nanosecond))
	replica.countMatch([]string{"a", "b"})
	tally.loseAnswer = true
	if err := replica.save(t.Context()); err == nil {
		t.Fatal("save returned no error, although the response was lost")
	}
	replica.countMatch([]string{"a"})
	tally.loseAnswer = false
	for range 3 { // the counter sends the first batch again, then the newer counts, then nothing
		if err := replica.save(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	otherReplica.countMatch([]string{"a"})
	if err := otherReplica.save(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(tally.batches) != 3 {
		t.Errorf("got %d stored batches %v, want 3", len(tally.batches), tally.batches)
	}
	replica.refresh(t.Context(), []string{"a", "b"})
	for slug, want := range map[string]int64{"a": 3, "b": 1} {
		if n, _ := replica.lookup(slug); n != want {
			t.Errorf("lookup(%q) = %d, want %d", slug, n, want)
		}
	}
}
