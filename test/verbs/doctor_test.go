package verbs

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"precept/internal/sample"
	"precept/internal/session"
	"precept/store/outbox"
	"precept/store/redis"
	"precept/store/storetest"
	"precept/test/harness"
)

// A store that lost exchanges after the outbox released them is reported; a complete store is not.
func TestDoctorReportsMissingExchanges(t *testing.T) {
	server := storetest.StartRedis(t)
	dir := t.TempDir()
	box, err := outbox.Open(outbox.Options{Path: filepath.Join(dir, "outbox.db"), Quota: 1 << 30, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	_, err = box.Append(&outbox.Flush{Carried: &outbox.Account{Admitted: 7, Incomplete: 2}})
	if err := errors.Join(err, box.Close()); err != nil {
		t.Fatal(err)
	}
	if d := harness.Doctor(t, dir, "--store-url", server.URL()); d.Missing != 5 || d.Stored != 5 || d.Incomplete != 2 {
		t.Errorf("got %+v, want Missing = 5, Stored = 5 and Incomplete = 2", d)
	}
	told := func(want bool) {
		t.Helper()
		out, complaints, code := harness.Verb(t, "", "doctor", "--data-dir", dir, "--store-url", server.URL())
		if code != harness.ExitDone || strings.Contains(strings.Join(strings.Fields(out), " "), "stored exchanges are missing in the store and in the outbox") != want {
			t.Errorf("want reported = %v: exit %d\n%s%s", want, code, out, complaints)
		}
	}
	told(true)
	shared, err := redis.Open(redis.Options{URL: server.URL(), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer shared.Close()
	put := func(tenant string, n int) {
		t.Helper()
		var b session.Batch
		for i := range n {
			x := sample.Exchange{ID: fmt.Sprint("x", i), Tenant: tenant, Session: session.ID{1}.String(), At: time.Now()}
			b.Exchanges = append(b.Exchanges, x)
		}
		if err := shared.Write(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	put("default", 3)
	if d := harness.Doctor(t, dir, "--store-url", server.URL()); d.Missing != 2 {
		t.Errorf("got %+v, want Missing = 2", d)
	}
	put("other", 2) // the replicas of a fleet count together
	told(false)
}
