package redis

import (
	"context"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"precept/internal/session"
)

// erasureAge is for how long the fleet is told of what was forgotten: a replica that was away for
// longer must not have anything of it left (its spool is delivered when it starts, and what is
// older than this is not expected there).
const erasureAge = 24 * time.Hour

// Announce tells all replicas what is forgotten, so that none of them brings it back. It returns
// the announcement's place.
func (s *Store) Announce(ctx context.Context, e session.Erasure) (place string, err error) {
	var ids strings.Builder
	for i := range e.IDs {
		ids.Write(e.IDs[i][:])
	}
	return ask(ctx, s, "announce", func(c client) (string, error) {
		return c.XAdd(ctx, &goredis.XAddArgs{
			Stream: s.shared("erasures"), MinID: strconv.FormatInt(e.At.Add(-erasureAge).UnixMilli(), 10), Approx: true,
			Values: []any{"t", e.Tenant, "i", ids.String(), "at", micros(e.At)},
		}).Result()
	})
}

// Erasures lists some announcements that follow a place, "" for all that are known.
func (s *Store) Erasures(ctx context.Context, after string) (list []session.Erasure, err error) {
	const most = 200
	from := "-"
	if after != "" {
		from = "(" + after
	}
	entries, err := ask(ctx, s, "erasures", func(c client) ([]goredis.XMessage, error) {
		return c.XRangeN(ctx, s.shared("erasures"), from, "+", most).Result()
	})
	for _, m := range entries {
		list = append(list, erasure(m))
	}
	return list, err
}

// erasure reads an announcement. One that cannot be read names nothing, and is passed over.
func erasure(m goredis.XMessage) session.Erasure {
	text := func(field string) string {
		v, _ := m.Values[field].(string)
		return v
	}
	e := session.Erasure{Place: m.ID, Tenant: text("t")}
	at, _ := strconv.ParseInt(text("at"), 10, 64)
	e.At = time.UnixMicro(at).UTC()
	ids := text("i")
	for ; len(ids) >= len(session.ID{}); ids = ids[len(session.ID{}):] {
		e.IDs = append(e.IDs, session.ID([]byte(ids[:len(session.ID{})])))
	}
	if ids != "" { // not a whole id: better nothing than all of the tenant's
		e.Tenant, e.IDs = "", nil
	}
	return e
}
