package redis_test

import (
	"testing"

	"precept/internal/session"
	"precept/store/storetest"
)

// Old exchanges leave Redis after the group has acknowledged the samples of their session, and not
// before. The samples stay, also when they are built again from a later exchange.
func TestExchangesLeaveAfterTheirSamplesAreAcknowledged(t *testing.T) {
	t.Parallel()
	s := open(t, storetest.StartRedis(t).URL())
	if err := s.Write(t.Context(), whole()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Settle(t.Context(), settlement()); err != nil {
		t.Fatal(err)
	}
	cool := func(seconds int) (int, bool) {
		t.Helper()
		n, ok, err := s.NewCooler("lake").Cool(t.Context(), then(seconds))
		if err != nil {
			t.Fatal(err)
		}
		return n, ok
	}
	if n, ok := cool(1000); n != 0 || ok {
		t.Errorf("without a group: got %d exchanges, ok %v, want none and false", n, ok)
	}
	streams, err := s.SampleStreams(t.Context())
	if err != nil || len(streams) != 1 {
		t.Fatalf("got streams %v, error %v, want one", streams, err)
	}
	for stream := range streams {
		if err := s.AckSamples(t.Context(), "lake", map[string]string{stream: "0-1"}); err != nil {
			t.Fatal(err)
		}
	}
	if n, ok := cool(1000); n != 0 || !ok {
		t.Errorf("before the sample: got %d exchanges, ok %v, want none and true", n, ok)
	}
	if err := s.AckSamples(t.Context(), "lake", streams); err != nil {
		t.Fatal(err)
	}
	if n, _ := cool(-3600); n != 0 {
		t.Errorf("got %d deleted exchanges of a young session, want none", n)
	}
	before, err := s.Exchanges(t.Context(), ourTenant, sid(1))
	if err != nil || len(before) == 0 {
		t.Fatalf("got exchanges %v, error %v, want some", before, err)
	}
	if n, _ := cool(1000); n != len(before) {
		t.Errorf("got %d deleted exchanges, want %d", n, len(before))
	}
	if list, err := s.Exchanges(t.Context(), ourTenant, sid(1)); err != nil || len(list) != 0 {
		t.Errorf("got exchanges %v, error %v, want none", list, err)
	}
	if err := s.Write(t.Context(), session.Batch{Whole: []session.Ref{{Tenant: ourTenant, ID: sid(1)}}}); err != nil {
		t.Fatal(err)
	}
	if p, err := s.NewestSamples(t.Context(), ourTenant, session.Stretch{Most: 10}); err != nil || len(p.List) != 1 {
		t.Errorf("got samples %v, error %v, want one", p.List, err)
	}
}
