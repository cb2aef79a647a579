package redis_test

import (
	"errors"
	"testing"
	"time"

	"precept/internal/session"
	"precept/store/storetest"
)

func TestGoneSessionsLeaveNothing(t *testing.T) {
	server := storetest.StartRedis(t)
	s := open(t, server.URL())
	storetest.RunGrowth(t, s, func(id session.ID, _ time.Time) {
		other := id
		other[0]++ // which is not there
		err := errors.Join(s.Leave(t.Context(), ours, id, "report", "text"), s.Leave(t.Context(), ours, other, "report", "text"),
			s.KeepOptOuts(t.Context(), map[session.ID]session.OptOutMark{id: {Turns: 1, Items: 2}}))
		if err != nil {
			t.Fatal(err)
		}
	}, func() map[string]int64 { return sizes(t, server) })
}

// sizes are the bytes of every key that does not end by itself.
func sizes(t *testing.T, server *storetest.Redis) map[string]int64 {
	t.Helper()
	out := map[string]int64{}
	keys, _ := server.Must(t, "KEYS", "*").([]any)
	for _, k := range keys {
		key, _ := k.(string)
		if ttl, _ := server.Must(t, "PTTL", key).(int64); ttl < 0 {
			out[key], _ = server.Must(t, "MEMORY", "USAGE", key).(int64)
		}
	}
	return out
}
