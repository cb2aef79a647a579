package redis_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"precept/internal/sample"
	"precept/internal/session"
	"precept/store/storetest"
)

func TestWalkUsesLimitedMemory(t *testing.T) { //nolint:paralleltest // the test measures the heap
	s := openWithShards(t, storetest.StartRedis(t).URL(), 2)
	const tenants, samples, bytes = 1000, 12, 4000
	for tenant := range tenants {
		var b session.Batch
		for n := range samples {
			b.Samples = append(b.Samples, session.StoredSample{
				Tenant: fmt.Sprint("tenant", tenant), ID: sessionID(n), Agent: strings.Repeat("a", bytes),
				Sample: sample.Sample{ID: fmt.Sprint("m", tenant, "-", n), CreatedAt: atSecond(n)},
			})
		}
		if err := s.Write(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc) //nolint:gosec // far below the maximum of an int64
	}
	before, peak, found := heap(), int64(0), map[string]int{}
	err := s.EachSample(t.Context(), "", time.Time{}, time.Time{}, func(m session.StoredSample) error {
		if len(found)%50 == 0 && found[m.Tenant] == 0 {
			peak = max(peak, heap()-before)
		}
		found[m.Tenant]++
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != tenants {
		t.Fatalf("tenants with samples in EachSample = %+v, want %d items", found, tenants)
	}
	for tenant, n := range found {
		if n != samples {
			t.Errorf("samples of tenant %s: got %d, want %d", tenant, n, samples)
		}
	}
	if all := int64(tenants * samples * bytes); peak > all/2 {
		t.Errorf("heap = %d MiB, want at most half of %d MiB", peak>>20, all>>20)
	} else {
		t.Logf("heap during the walk: %d MiB; size of all samples: %d MiB", peak>>20, all>>20)
	}
}
