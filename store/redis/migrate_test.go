package redis_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"precept/internal/sample"
	"precept/internal/session"
	"precept/store/redis"
	"precept/store/storetest"
)

// readDataWithoutPosition returns the same text as readAllData, but without the positions, because they differ between
// layouts.
func readDataWithoutPosition(t *testing.T, s *redis.Store) (text string) {
	t.Helper()
	for line := range strings.Lines(readAllData(t, s)) {
		if !strings.HasPrefix(line, "positions: ") {
			text += line
		}
	}
	return text
}

// The migration deletes the keys of the old layout except for t and frozen. These two keys make each call fail that
// still uses the old layout.
func TestMigrationKeepsAllData(t *testing.T) {
	t.Parallel()
	server := storetest.StartRedis(t)
	s := openWithShards(t, server.URL(), 1)
	for _, call := range changeCalls()[:addingCallCount] {
		if _, err := call.do(t.Context(), s); err != nil {
			t.Fatalf("call %s: %v", call.name, err)
		}
	}
	acknowledge(t, s, "lake")
	want := readDataWithoutPosition(t, s)
	done, err := s.Migrate(t.Context(), redis.MigrateOptions{Owner: "one", Shards: 4})
	if err != nil {
		t.Fatal(err)
	}
	if done.Tenants != 2 {
		t.Fatalf("Migrate: Tenants = %d, want 2", done.Tenants)
	}
	if done.Sessions < 3 {
		t.Fatalf("Migrate: Sessions = %d, want at least 3", done.Sessions)
	}
	for name, s := range map[string]*redis.Store{"the same store": s, "a new store": openWithShards(t, server.URL(), 1)} {
		if got := readDataWithoutPosition(t, s); got != want {
			t.Errorf("data in %s after the migration: got changed lines:%s", name, diffLines(got, want))
		}
	}
	for _, key := range listKeys(t, server, "*") {
		if strings.Contains(key, "moving") || strings.HasSuffix(key, "dirty") || strings.HasSuffix(key, "taken") {
			t.Errorf("the migration left its temporary key %s, want it deleted", key)
		}
		if base, name, _ := strings.Cut(key, "}:"); len(base) == len("precept:{0123456789abcdef") && name != "t" && name != "frozen" {
			t.Errorf("the migration left the key %s of the old layout, want it deleted", key)
		}
	}
	if groups, err := s.SampleGroups(t.Context(), "lake"); err != nil {
		t.Error(err)
	} else if len(groups) != 1 {
		t.Errorf("SampleGroups(lake) = %q, want 1 item", groups)
	}
	if done, err := s.Migrate(t.Context(), redis.MigrateOptions{Owner: "one"}); err != nil {
		t.Error(err)
	} else if done != (redis.MigrateResult{}) {
		t.Errorf("second Migrate = %+v, want %+v", done, (redis.MigrateResult{}))
	}
	for _, call := range changeCalls()[addingCallCount:] {
		if _, err := call.do(t.Context(), s); err != nil {
			t.Errorf("%s after the migration: got error %v, want none", call.name, err)
		}
	}
	if err := s.Write(t.Context(), newBatch(77)); err != nil {
		t.Error(err)
	}
	if _, ok, err := s.Session(t.Context(), testTenant, sessionID(77)); err != nil {
		t.Error(err)
	} else if !ok {
		t.Error("Session written after the migration: ok = false, want true")
	}
}

// Migrate must never make two calls of MigrateOptions.Progress at the same time, so that the function needs no lock.
func TestMigrateProgressCallsDoNotOverlap(t *testing.T) {
	t.Parallel()
	s := openWithShards(t, storetest.StartRedis(t).URL(), 1)
	for _, call := range changeCalls()[:addingCallCount] {
		if _, err := call.do(t.Context(), s); err != nil {
			t.Fatalf("call %s: %v", call.name, err)
		}
	}
	var running, calls atomic.Int32
	_, err := s.Migrate(t.Context(), redis.MigrateOptions{Owner: "one", Shards: 4, Progress: func(int64) {
		if running.Add(1) > 1 {
			t.Error("two Progress calls overlap")
		}
		time.Sleep(20 * time.Millisecond)
		running.Add(-1)
		calls.Add(1)
	}})
	if err != nil {
		t.Fatal(err)
	}
	if calls.Load() < 2 {
		t.Fatalf("Migrate of two tenants: calls = %d, want at least 2", calls.Load())
	}
}

// The test changes values of a tenant after the migration has copied the tenant, but before the migration ends.
func TestMigrationCopiesChangedValuesAgain(t *testing.T) {
	t.Parallel()
	server := storetest.StartRedis(t)
	s, replica := openWithShards(t, server.URL(), 1), openWithShards(t, server.URL(), 1)
	writeValues := func(s *redis.Store, text string) error {
		_, err := s.PutPriors(t.Context(), testTenant, int64(len(text)-1), []byte("priors "+text))
		return errors.Join(err, s.WriteNotes(t.Context(), testTenant, nil, map[string][]byte{"n": []byte("note " + text), text: nil}))
	}
	if err := errors.Join(writeValues(s, "1"), s.WriteNotes(t.Context(), testTenant, nil, map[string][]byte{"22": []byte("deleted later")})); err != nil {
		t.Fatal(err)
	}
	other := newBatch(1)
	other.Rows[0].Tenant, other.Exchanges[0].Tenant = "other", "other"
	if err := s.Write(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	changed, tag := false, fmt.Sprintf("%x", sha256.Sum256([]byte("precept tenant\x00"+testTenant)))[:16]
	_, err := s.Migrate(t.Context(), redis.MigrateOptions{Owner: "one", Shards: 4, Progress: func(int64) {
		if changed {
			return
		}
		changed = true
		eventually(t, "first tenant copy", func() error {
			for _, key := range listKeys(t, server, "*movingsums") {
				if strings.Contains(key, tag) {
					return nil
				}
			}
			return errors.New("not yet")
		})
		time.Sleep(50 * time.Millisecond) // until the migration has copied the rest
		if err := writeValues(replica, "22"); err != nil {
			t.Error(err)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	if !changed {
		t.Fatal("Migrate: changed = false, want true")
	}
	after := openWithShards(t, server.URL(), 1)
	_, priors, err := after.Priors(t.Context(), testTenant)
	if err != nil {
		t.Fatal(err)
	}
	if string(priors) != "priors 22" {
		t.Errorf(`Priors after the migration = %q, want "priors 22"`, string(priors))
	}
	notes := ""
	err = after.EachNote(t.Context(), testTenant, "", func(key string, data []byte) error {
		notes += key + ": " + string(data) + "\n"
		return nil
	})
	if want := "n: note 22\n"; err != nil {
		t.Error(err)
	} else if notes != want {
		t.Errorf("notes after the migration = %q, want %q", notes, want)
	}
}

// A migration freezes (stops) all writes before it switches to the new layout. During the freeze, the migration may
// copy only the tenants that have changed since the first copy.
func TestMigrateFreezeCopiesOnlyChangedTenants(t *testing.T) {
	t.Parallel()
	server := storetest.StartRedis(t)
	s := openWithShards(t, server.URL(), 1)
	if err := s.Write(t.Context(), fullBatch()); err != nil {
		t.Fatal(err)
	}
	stop := server.Monitor(t)
	if _, err := s.Migrate(t.Context(), redis.MigrateOptions{Owner: "one", Shards: 4}); err != nil {
		t.Fatal(err)
	}
	frozen := false
	for _, line := range stop() {
		lower := strings.ToLower(line)
		frozen = frozen || strings.Contains(lower, `"set" "precept:{precept}:frozen"`)
		if strings.HasSuffix(lower, `:frozen" "one"`) { // the last freeze, which does not expire, ends the migration
			break
		}
		if frozen && (strings.Contains(lower, `"dump"`) || strings.Contains(lower, `"hkeys"`)) {
			t.Errorf("command %s during the freeze reads an unchanged tenant, want no such command", line)
		}
	}
	if !frozen {
		t.Error("the migration did not freeze any tenant")
	}
}

func TestMigrationRenewsTheLease(t *testing.T) {
	t.Parallel()
	const pages, pageSize = 3, 500
	server := storetest.StartRedis(t)
	var seconds atomic.Int64
	s, err := redis.Open(redis.Options{URL: server.URL(), Shards: 1, Now: func() time.Time { return time.Unix(1_900_000_000+10*seconds.Add(1), 0) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	b := newBatch(1)
	marks := map[session.ID]session.OptOutMark{}
	for i := range pages * pageSize {
		b.Samples = append(b.Samples, session.StoredSample{Tenant: "default", ID: sessionID(1), Sample: sample.Sample{ID: fmt.Sprint("m", i), CreatedAt: atSecond(1)}})
		marks[sessionID(i+10)] = session.OptOutMark{Turns: 1, Items: 2}
	}
	if err := errors.Join(s.Write(t.Context(), b), s.PutOptOutMarks(t.Context(), marks)); err != nil {
		t.Fatal(err)
	}
	stop := server.Monitor(t)
	if _, err := s.Migrate(t.Context(), redis.MigrateOptions{Owner: "one", Shards: 4}); err != nil {
		t.Fatal(err)
	}
	renewed, samplePages, copiedMarks := false, 0, 0
	for _, line := range stop() {
		text := strings.ToLower(line)
		isPage, isMark := strings.Contains(text, `:moving:stream"`) && strings.Contains(text, `"set"`), strings.Contains(text, `"pttl"`)
		if isMark {
			copiedMarks++
		}
		switch {
		case strings.Contains(text, `"claim:migrate"`):
			renewed = true
		case isPage || isMark && copiedMarks%pageSize == 1:
			if !renewed {
				t.Errorf("the migration did not renew the lease between the previous page and the command %s", line)
			}
			renewed = false
		}
		if isPage {
			samplePages++
		}
	}
	if samplePages < pages {
		t.Errorf("copied sample pages and opt-out marks: samplePages = %d, want at least %d", samplePages, pages)
	}
	if copiedMarks < pages*pageSize {
		t.Errorf("copied sample pages and opt-out marks: copiedMarks = %d, want at least %d", copiedMarks, pages*pageSize)
	}
}

func TestMigrationMovesKeysToShardSlots(t *testing.T) {
	cluster := storetest.StartCluster(t)
	s := openWithShards(t, cluster.URL(), 1)
	for _, call := range changeCalls()[:addingCallCount] {
		if _, err := call.do(t.Context(), s); err != nil {
			t.Fatalf("call %s: %v", call.name, err)
		}
	}
	want := readDataWithoutPosition(t, s)
	if done, err := s.Migrate(t.Context(), redis.MigrateOptions{Owner: "one"}); err != nil {
		t.Fatal(err)
	} else if done.Tenants != 2 {
		t.Fatalf("Migrate: Tenants = %d, want 2", done.Tenants)
	}
	if got := readDataWithoutPosition(t, s); got != want {
		t.Errorf("data after the migration: got changed lines:%s", diffLines(got, want))
	}
}

// After a migration, a server that runs an earlier release may still write a new tenant in the old layout. Layout must
// report such tenants.
func TestLayoutFindsKeysWrittenWithoutShards(t *testing.T) {
	t.Parallel()
	server := storetest.StartRedis(t)
	checkLayout := func(s *redis.Store, want redis.Layout) {
		t.Helper()
		if got, err := s.Layout(t.Context()); err != nil {
			t.Error(err)
		} else if !reflect.DeepEqual(got, want) {
			t.Errorf("Layout = %+v, want %+v", got, want)
		}
	}
	old := openWithShards(t, server.URL(), 1)
	if err := old.Write(t.Context(), fullBatch()); err != nil {
		t.Fatal(err)
	}
	checkLayout(old, redis.Layout{OneShardPerTenant: true})
	if _, err := old.Migrate(t.Context(), redis.MigrateOptions{Owner: "one"}); err != nil {
		t.Fatal(err)
	}
	s := open(t, server.URL())
	checkLayout(s, redis.Layout{})
	shardsKey := "precept:{precept}:shards"
	server.MustDo(t, "SET", shardsKey, "1") // an earlier release, which did not use shards, ignores this key
	earlierRelease := openWithShards(t, server.URL(), 1)
	for i := range 2 {
		batch := newBatch(5 + i)
		for n := range batch.Rows {
			batch.Rows[n].Tenant = "late"
		}
		for n := range batch.Exchanges {
			batch.Exchanges[n].Tenant = "late"
		}
		if err := earlierRelease.Write(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
	}
	if err := earlierRelease.Write(t.Context(), newBatch(7)); !errors.Is(err, redis.ErrBusy) {
		t.Errorf("Write to a moved tenant: got error %v, want redis.ErrBusy", err)
	}
	server.MustDo(t, "SET", shardsKey, "256")
	checkLayout(s, redis.Layout{StrayTenants: []string{"late"}})
	server.MustDo(t, "SET", "precept:{precept}:moving", "1")
	checkLayout(s, redis.Layout{Moving: true})
}
