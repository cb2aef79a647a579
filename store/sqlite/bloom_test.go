package sqlite

import (
	"path/filepath"
	"testing"
	"time"

	"precept/internal/session"
)

func TestBloom(t *testing.T) {
	t.Parallel()
	var none *bloom
	none.add(testID(1))
	if !none.may(testID(1)) {
		t.Error("without a memory everything may be there")
	}
	h := &bloom{}
	const known, unknown = 2000, 2000
	for n := range known {
		h.add(session.KeyOf("t", session.SpaceName, string(rune(n))))
	}
	wrong := 0
	for n := range known + unknown {
		may := h.may(session.KeyOf("t", session.SpaceName, string(rune(n))))
		if n < known && !may {
			t.Fatalf("session %d is forgotten", n)
		}
		if n >= known && may {
			wrong++
		}
	}
	if wrong > unknown/100 {
		t.Errorf("%d of %d unknown sessions are taken for known", wrong, unknown)
	}
}

func TestHeardComesFromTheFile(t *testing.T) {
	t.Parallel()
	one, two := session.KeyOf("t", session.SpaceName, "one"), session.KeyOf("t", session.SpaceName, "two")
	path, at := filepath.Join(t.TempDir(), "precept.db"), time.Unix(1_900_000_000, 0)
	for round := range 2 { // the first run writes, the second finds
		s, err := Open(t.Context(), Options{Path: path, Exclusive: true})
		if err != nil {
			t.Fatal(err)
		}
		if s.bloom.may(one) != (round == 1) || s.bloom.may(two) {
			t.Errorf("round %d: 1 %v, 2 %v", round, s.bloom.may(one), s.bloom.may(two))
		}
		if _, found, err := s.Session(t.Context(), "t", one); err != nil || found != (round == 1) {
			t.Errorf("round %d: found %v %v", round, found, err)
		}
		if err := s.Write(t.Context(), session.Batch{Rows: []session.Row{{Tenant: "t", ID: one, Started: at, Seen: at, Data: []byte("{}")}}}); err != nil {
			t.Fatal(err)
		}
		if _, found, err := s.Session(t.Context(), "t", one); err != nil || !found {
			t.Errorf("after writing: %v %v", found, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
