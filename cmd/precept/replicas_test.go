package main

import (
	"fmt"
	"strings"
	"testing"

	"precept/session"
	"precept/store/storetest"
)

// A session's next turn may reach another replica at once: what was decided is there when the client has its answer, for
// sessions that are named and for those that are known by what they send back.
func TestReplicasShareSessionsAtOnce(t *testing.T) {
	t.Parallel()
	server := storetest.StartRedis(t)
	model := newScribe(t)
	fleet := replicas(t, 3, server.URL(), model.URL, manyLessons(t), "--limits-lookup-timeout", "10s")
	db := openStore(t, server.URL())
	injected := 0
	for n := range 8 {
		k := newChat(fmt.Sprint("quick-", n), n%2 == 0)
		before := ""
		for turn := range 6 {
			k.turn(t, fleet[(turn+n)%3])
			after := model.last(k.who)
			if turn > 0 {
				prefixOf(t, before, after)
			}
			before = after
		}
		if strings.Contains(before, "List the targets first") {
			injected++
		}
		if n%2 == 0 {
			written(t, db, session.KeyOf("default", session.SpaceName, k.who), 6)
		}
	}
	if injected == 0 {
		t.Error("no session got a lesson")
	}
	stats, err := db.Stats(t.Context())
	if err != nil || stats["sessions"] != 8 {
		t.Errorf("%d sessions, %v; want 8", stats["sessions"], err)
	}
}
