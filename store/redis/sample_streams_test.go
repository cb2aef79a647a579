package redis_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"precept/internal/sample"
	"precept/internal/session"
	"precept/store/storetest"
)

// After a failover that loses the last writes, the server has an older sequence number. A reader may already have read
// the lost samples, so the next samples must get positions above the reader's position.
func TestSamplePositionsIncreaseAfterALoss(t *testing.T) {
	t.Parallel()
	server := storetest.StartRedis(t)
	s := open(t, server.URL())
	writeSample := func(n int) (stream string, position int64) {
		t.Helper()
		b := session.Batch{Samples: []session.StoredSample{{Tenant: testTenant, ID: sessionID(1), Sample: sample.Sample{ID: fmt.Sprint("m", n), CreatedAt: atSecond(n)}}}}
		if err := s.Write(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		streams, err := s.SampleStreams(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(streams) != 1 {
			t.Fatalf("SampleStreams = %+v, want 1 item", streams)
		}
		for key, id := range streams {
			number, _, _ := strings.Cut(id, "-")
			if position, err = strconv.ParseInt(number, 10, 64); err != nil {
				t.Fatal(err)
			}
			stream = key
		}
		return stream, position
	}
	_, first := writeSample(1)
	stream, lost := writeSample(2)
	server.MustDo(t, "DEL", stream)
	server.MustDo(t, "SET", "precept:{precept}:seq", strconv.FormatInt(first, 10))
	if _, next := writeSample(3); next <= lost {
		t.Errorf("position of the next sample after the loss: got %d, want more than %d", next, lost)
	}
}
