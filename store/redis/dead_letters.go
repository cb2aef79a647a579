package redis

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"precept/internal/session"
)

// A session or an exchange at which a step panicked gets a mark, a session.DeadLetter, in the hash 'aside'. The field
// is the session id and, for an exchange, the exchange id.

// deadLetterHeader is the size of a mark's header: "1" while the session is set aside, and six digits that count how
// often it was set aside. The DeadLetter follows in JSON.
const deadLetterHeader = 7

// SetAside marks sessions and exchanges at which a step panicked. DueSessions and UnsettledSessions leave out such a
// session until Readmit or a settlement.
func (s *Store) SetAside(ctx context.Context, list []session.DeadLetter) error {
	p, names := newPlan("aside"), []string{}
	for i := range list {
		a := &list[i]
		doc, err := json.Marshal(a)
		if err != nil {
			return fmt.Errorf("redis: store a panic mark: %w: %w", session.ErrInvalid, err)
		}
		p.add(sessionLocation(a.Tenant, a.ID), "out", string(a.ID[:]), a.Exchange, string(doc), timeScore(a.At))
		names = append(names, a.Tenant)
	}
	return s.writePlan(ctx, "store a panic mark", p, names...)
}

// Readmit makes two kinds of sessions due again: those that were set aside fewer than maxTries times, and those that an
// earlier release closed without a settlement. It returns the number of sessions.
func (s *Store) Readmit(ctx context.Context, maxTries int) (n int, err error) {
	if n, err = s.reopenAll(ctx); err != nil {
		return n, err
	}
	p := newPlan("aside")
	err = s.eachDeadLetter(ctx, "readmit", func(tenant, field, value string) error {
		if tries, _ := strconv.Atoi(value[1:deadLetterHeader]); strings.HasPrefix(value, "1") && tries < maxTries {
			p.add(sessionLocation(tenant, idFromBytes(field)), "in", field[:len(session.ID{})], strconv.Itoa(maxTries))
		}
		return nil
	})
	if err != nil || len(p.items) == 0 {
		return n, err
	}
	err = s.do(ctx, "readmit", func(c client) error { return s.runPlan(ctx, c, p) })
	for _, readmitted := range p.results() {
		n += int(readmitted)
	}
	return n, err
}

func (s *Store) eachDeadLetter(ctx context.Context, op string, fn func(tenant, field, value string) error) error {
	all := func(p goredis.Pipeliner, ks keyspace) *goredis.MapStringStringCmd {
		return p.HGetAll(ctx, ks.listPrefix+"aside")
	}
	return doEachKeyspace(ctx, s, op, s.shardKeyspaces, all, func(ks keyspace, marks *goredis.MapStringStringCmd) error {
		const size = len(session.ID{})
		for field, value := range marks.Val() {
			if len(field) < size || len(value) < deadLetterHeader {
				return fmt.Errorf("%w: a panic mark is truncated", ErrCorrupt)
			}
			exchange, tenant, _ := strings.Cut(field[size:], "\x00")
			if err := fn(ks.memberTenant(tenant), field[:size]+exchange, value); err != nil {
				return err
			}
		}
		return nil
	})
}

// DeadLetters returns the newest marks, at most limit, and the total.
func (s *Store) DeadLetters(ctx context.Context, limit int) (list []session.DeadLetter, total int, err error) {
	err = s.eachDeadLetter(ctx, "aside", func(tenant, field, value string) error {
		a, err := decodeDeadLetter(tenant, field, value)
		list = append(list, a)
		return err
	})
	slices.SortFunc(list, func(a, b session.DeadLetter) int {
		return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.Exchange, b.Exchange))
	})
	total = len(list)
	return list[:min(limit, total)], total, err
}

func decodeDeadLetter(tenant, field, value string) (session.DeadLetter, error) {
	const size = len(session.ID{})
	var a session.DeadLetter
	if err := json.Unmarshal([]byte(value[deadLetterHeader:]), &a); err != nil {
		return a, fmt.Errorf("%w: a panic mark does not parse: %w", ErrCorrupt, err)
	}
	a.Tenant, a.ID, a.Exchange = tenant, idFromBytes(field), field[size:]
	a.Tries, _ = strconv.Atoi(value[1:deadLetterHeader])
	return a, nil
}

// CountUnsampled counts the exchanges without a sample in sessions that were settled or set aside.
func (s *Store) CountUnsampled(ctx context.Context) (n int64, err error) {
	late := func(p goredis.Pipeliner, ks keyspace) *goredis.StringCmd {
		return p.HGet(ctx, ks.listPrefix+"t", "late")
	}
	err = doEachKeyspace(ctx, s, "unsampled", s.shardKeyspaces, late, func(_ keyspace, cmd *goredis.StringCmd) error {
		n += parseInt(cmd.Val())
		return nil
	})
	if err != nil {
		return 0, err
	}
	var asideSessions []sessionRef
	err = s.eachDeadLetter(ctx, "unsampled", func(tenant, field, value string) error {
		if strings.HasPrefix(value, "1") {
			asideSessions = append(asideSessions, sessionRef{tenant: tenant, id: idFromBytes(field)})
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	unsettled, err := doValue(ctx, s, "unsampled", func(c client) (int64, error) { return s.unsettledExchanges(ctx, c, asideSessions) })
	return n + unsettled, err
}

func (s *Store) unsettledExchanges(ctx context.Context, c client, sessions []sessionRef) (n int64, err error) {
	settled, err := runPipelined(ctx, c, sessions, func(p goredis.Pipeliner, ref sessionRef) *goredis.BoolCmd {
		return p.HExists(ctx, s.sessionKey(ref.tenant, ref.id), "a")
	})
	if err != nil {
		return 0, err
	}
	exchanges, err := runPipelined(ctx, c, sessions, func(p goredis.Pipeliner, ref sessionRef) *goredis.IntCmd {
		return p.HLen(ctx, s.key(sessionLocation(ref.tenant, ref.id), "x:"+ref.id.String()))
	})
	for i := range exchanges {
		if !settled[i].Val() {
			n += exchanges[i].Val()
		}
	}
	return n, err
}
