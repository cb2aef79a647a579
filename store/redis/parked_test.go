package redis_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"precept/internal/session"
	"precept/store/redis"
	"precept/store/storetest"
)

// What waits of one tenant is bounded by itself: others have places of their own.
func TestParkingIsBoundedByTenant(t *testing.T) {
	server := storetest.StartRedis(t)
	s, err := redis.Open(redis.Options{URL: server.URL(), Now: time.Now, MaxParked: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for n := range 3 {
		if err := s.Park(t.Context(), ours, session.EchoKey(n), spoken(fmt.Sprint("e", n))); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Park(t.Context(), ours, 9, spoken("new")); !errors.Is(err, session.ErrParkingFull) {
		t.Errorf("the fourth: %v", err)
	}
	if err := s.Park(t.Context(), ours, 1, spoken("e1")); err != nil {
		t.Errorf("one that waits already: %v", err)
	}
	if err := s.Park(t.Context(), "other", 9, spoken("new")); err != nil {
		t.Errorf("another tenant's: %v", err)
	}
	if added, err := s.Join(t.Context(), ours, map[session.EchoKey]session.ID{0: sid(1)}); err != nil || added[sid(1)] != 1 {
		t.Errorf("joined %v, %v", added, err)
	}
	if err := s.Park(t.Context(), ours, 9, spoken("new")); err != nil {
		t.Errorf("with room again: %v", err)
	}
}
