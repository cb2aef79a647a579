package redis

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"precept/inject/bank"
	"precept/internal/session"
)

// AddConsultations adds to the consultation counts (how often a lesson matched), by lesson slug, and sets the time of
// each lesson's last match. Redis counts each batch name only once within an hour, so a caller can retry the call after
// a lost answer.
func (s *Store) AddConsultations(ctx context.Context, batch string, consultations map[string]bank.Consultation) error {
	args := []any{batch}
	for slug, m := range consultations {
		args = append(args, slug, m.Count, m.Last.UnixMicro())
	}
	return s.do(ctx, "count consulted lessons", func(c client) error { return s.script(ctx, c, "consult", location{}, args...).Err() })
}

// Consultations returns lesson consultations by slug. Lessons without a consultation are left out.
func (s *Store) Consultations(ctx context.Context, slugs []string) (map[string]bank.Consultation, error) {
	out := make(map[string]bank.Consultation, len(slugs))
	if len(slugs) == 0 {
		return out, ctx.Err()
	}
	err := s.do(ctx, "consultations", func(c client) error {
		pipe := c.Pipeline()
		counts, last := pipe.HMGet(ctx, s.commonKey("consulted"), slugs...), pipe.HMGet(ctx, s.commonKey("consulted-last"), slugs...)
		if err := readPipeline(ctx, pipe); err != nil {
			return err
		}
		for i, slug := range slugs {
			count, _ := counts.Val()[i].(string)
			usec, _ := last.Val()[i].(string)
			n, err := strconv.ParseInt(count, 10, 64)
			if err != nil {
				continue
			}
			micros, _ := strconv.ParseInt(usec, 10, 64) // 0 means unknown
			out[slug] = bank.Consultation{Count: n, Last: time.UnixMicro(micros).UTC()}
		}
		return nil
	})
	return out, err
}

// AddConsultations is Store.AddConsultations for lessons in a separate Redis.
func (b *Bank) AddConsultations(ctx context.Context, batch string, consultations map[string]bank.Consultation) error {
	return b.store.AddConsultations(ctx, batch, consultations)
}

// Consultations is Store.Consultations for lessons in a separate Redis.
func (b *Bank) Consultations(ctx context.Context, slugs []string) (map[string]bank.Consultation, error) {
	return b.store.Consultations(ctx, slugs)
}

// PutAnswer stores a text under a name in an existing session, for the replica that serves the session's next turn.
func (s *Store) PutAnswer(ctx context.Context, tenant string, id session.ID, name, text string) error {
	p := newPlan("notes")
	p.add(sessionLocation(tenant, id), "s", string(id[:]), "l:"+name, text)
	return s.writePlan(ctx, "put answer", p, tenant)
}

// Answer returns the text stored by PutAnswer under the name.
func (s *Store) Answer(ctx context.Context, tenant string, id session.ID, name string) (text string, ok bool, err error) {
	err = s.lookUp(ctx, "answer", func(c client) error {
		text, err = c.HGet(ctx, s.sessionKey(tenant, id), "l:"+name).Result()
		if ok = err == nil; errors.Is(err, redis.Nil) {
			return nil
		}
		return err
	})
	return text, ok, err
}

// DeleteAnswer deletes the text stored by PutAnswer under the name.
func (s *Store) DeleteAnswer(ctx context.Context, tenant string, id session.ID, name string) error {
	return s.lookUp(ctx, "clear answer", func(c client) error { return c.HDel(ctx, s.sessionKey(tenant, id), "l:"+name).Err() })
}
