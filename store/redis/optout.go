package redis

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strconv"
	"time"

	"precept/internal/session"
)

// optOutFor is how long the mark of a session that opted out is kept after its last turn.
const optOutFor = 30 * 24 * time.Hour

// optOutName is that of a mark: without the session's id nobody finds out whose it is.
func optOutName(id session.ID) string {
	sum := sha256.Sum256(append([]byte("precept opted out\x00"), id[:]...))
	return string(sum[:16])
}

// KeepOptOuts keeps marks of sessions that opted out, so that every replica knows them. Of two
// marks of one session the one of more items stands: a late one hides no less than another.
func (s *Store) KeepOptOuts(ctx context.Context, marks map[session.ID]session.OptOutMark) error {
	p, base := newPlan("optout"), s.shared("")
	for id, m := range marks {
		p.add(base, optOutName(id), strconv.Itoa(m.Turns), strconv.Itoa(m.Items), millis(optOutFor))
	}
	return s.commit(ctx, "opt out", p)
}

// OptOutOf finds the mark of a session.
func (s *Store) OptOutOf(ctx context.Context, id session.ID) (m session.OptOutMark, ok bool, err error) {
	err = s.look(ctx, "opt out", func(c client) error {
		text, err := c.Get(ctx, s.shared(fmt.Sprintf("optout:%x", optOutName(id)))).Result()
		if err != nil {
			return err
		}
		_, err = fmt.Sscan(text, &m.Turns, &m.Items)
		ok = err == nil
		return err
	})
	return m, ok, err
}
