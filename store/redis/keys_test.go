package redis_test

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"precept/inject/bank"
	"precept/internal/session"
	"precept/store/redis"
	"precept/store/storetest"
)

// fillStore makes all kinds of changes to a store except deletions, in two tenants.
func fillStore(t *testing.T, s *redis.Store) {
	t.Helper()
	for _, call := range changeCalls() {
		if strings.HasPrefix(call.name, "forget") || call.name == "purge parked" || call.name == "purge sessions" {
			continue
		}
		if _, err := call.do(t.Context(), s); err != nil {
			t.Fatalf("call %s: %v", call.name, err)
		}
	}
	if ok, err := s.AcquireLease(t.Context(), "distill", "one", time.Time{}, time.Minute); err != nil {
		t.Fatal(err)
	} else if !ok {
		t.Fatal("AcquireLease: ok = false, want true")
	}
	if _, err := s.Epoch(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Announce(t.Context(), session.Erasure{Tenant: testTenant, At: time.Now()}); err != nil {
		t.Fatal(err)
	}
}

func listKeys(t *testing.T, server *storetest.Redis, pattern string) (names []string) {
	t.Helper()
	list, _ := server.MustDo(t, "KEYS", pattern).([]any)
	for _, k := range list {
		names = append(names, fmt.Sprint(k))
	}
	slices.Sort(names)
	return names
}

// Each key must contain a hash tag in braces and, instead of the tenant's name, a hash of the name. Only opt-out marks,
// leases and the names of consultation batches may expire.
func TestKeysHaveTagsAndNoTenantNames(t *testing.T) {
	server := storetest.StartRedis(t)
	s := open(t, server.URL()+"?prefix=team-a")
	fillStore(t, s)
	validKey := regexp.MustCompile(`^team-a:\{(?:precept|[0-9a-f]{2}[0-9a-z]{2})\}:(?:([0-9a-f]{16}|all):)?[-a-z:0-9]+$`)
	expiringKey := regexp.MustCompile(`^team-a:\{.*\}:(all:optout:[0-9a-f]{32}|lock:claim:distill|consult:batch)$`)
	tags := map[string]bool{}
	expiries := map[string]time.Duration{"optout": 30 * 24 * time.Hour, "lock": time.Minute, "consult": time.Hour}
	for _, key := range listKeys(t, server, "*") {
		found := validKey.FindStringSubmatch(key)
		if found == nil || strings.Contains(key, "default") || strings.Contains(key, "other") {
			t.Errorf("key %q has an unknown form, or contains the name of a tenant", key)
			continue
		}
		tags[found[1]] = true
		ttl, _ := server.MustDo(t, "PTTL", key).(int64)
		if (ttl >= 0) != expiringKey.MatchString(key) {
			t.Errorf("PTTL(%s): got %d, want an expiry: %v", key, ttl, expiringKey.MatchString(key))
		}
		if kind := strings.Split(strings.Replace(key, "all:", "", 1), ":")[2]; ttl >= 0 {
			if left := time.Duration(ttl) * time.Millisecond; left > expiries[kind] {
				t.Errorf("time until the key %s expires: left = %v, want at most %v", key, left, expiries[kind])
			} else if left < expiries[kind]-5*time.Minute {
				t.Errorf("time until the key %s expires: left = %v, want at least %v", key, left, expiries[kind]-5*time.Minute)
			}
			delete(expiries, kind)
		}
	}
	if len(tags) != 4 { // for two tenants, for the lists of a shard, and for keys without a tenant
		t.Errorf("tenant parts of the keys: got %v, want 4 different parts", tags)
	}
	if len(expiries) > 0 {
		t.Errorf("kinds without a key that expires: got %v, want none", expiries)
	}
}

func TestPrefixesAreSeparate(t *testing.T) {
	server := storetest.StartRedis(t)
	one, other := open(t, server.URL()+"?prefix=one"), open(t, server.URL()+"?prefix=other")
	empty := readAllData(t, other)
	fillStore(t, one)
	if got := readAllData(t, other); got != empty {
		t.Errorf("data in the store with another prefix: got lines that an empty store does not have:%s", diffLines(got, empty))
	}
	full := readAllData(t, one)
	for _, tenant := range []string{testTenant, "other"} {
		if n, err := other.ForgetTenant(t.Context(), tenant); err != nil {
			t.Error(err)
		} else if n != 0 {
			t.Errorf("ForgetTenant with another prefix = %d, want 0", n)
		}
	}
	if got := readAllData(t, one); got != full {
		t.Errorf("data with the prefix one after deletions with the prefix other: got changed lines:%s", diffLines(got, full))
	}
}

// The test makes each call as a Redis user that can access only the keys of one tenant.
func TestCallsUseOnlyTenantKeys(t *testing.T) {
	server := storetest.StartRedis(t)
	s := open(t, server.URL())
	fillStore(t, s)
	row, ok, err := s.Session(t.Context(), testTenant, sessionID(1))
	if err != nil {
		t.Fatal(err)
	}
	if !ok {
		t.Fatal("Session(1): ok = false, want true")
	}
	own := listKeys(t, server, "*:s:"+row.ID.String())
	if len(own) != 1 {
		t.Fatalf("session 1 keys: got %q, want one", own)
	}
	tag := strings.Split(own[0], ":")[2]
	server.MustDo(t, append([]string{"ACL", "SETUSER", "app", "on", ">secret", "~precept:{*}:" + tag + ":*", "~precept:{*}:all:*", "~precept:{precept}:*", "&*"}, permissions(t)...)...)
	app := openWithLongTimeout(t, "redis://app:secret@"+server.Addr)
	multiTenant := []string{ // the calls that concern all tenants, and the calls in changeCalls and readCalls that use two tenants
		"write", "set aside", "readmit", "purge sessions", "purge parked", "forget tenant",
		"due sessions", "unsettled sessions", "all samples", "all sessions", "dead letters", "count unsampled", "stats", "positions",
	}
	for _, call := range append(changeCalls(), readCalls()...) {
		_, err := call.do(t.Context(), app)
		if isMultiTenant := slices.Contains(multiTenant, call.name); err != nil && !isMultiTenant {
			t.Errorf("%s for one tenant: got error %v, want none", call.name, err)
		} else if err != nil && !errors.Is(err, redis.ErrACL) {
			t.Errorf("%s for several tenants: got error %v, want none or redis.ErrACL", call.name, err)
		}
	}
	if err := app.Write(t.Context(), newBatch(7)); err != nil {
		t.Errorf("Write for the permitted tenant: got error %v, want none", err)
	}
	other := newBatch(8)
	other.Rows[0].Tenant, other.Exchanges = "other", nil
	if err := app.Write(t.Context(), other); !errors.Is(err, redis.ErrACL) {
		t.Errorf("Write for another tenant: got error %v, want redis.ErrACL", err)
	}
}

func TestTenantNamesAreHashed(t *testing.T) {
	server := storetest.StartRedis(t)
	s := open(t, server.URL())
	names := []string{"", "a}b", "{x}", "{precept}", "a\x00b", "a:b", "a*", "../..", strings.Repeat("x", 1<<16)}
	for i, name := range names {
		b := newBatch(i)
		b.Rows[0].Tenant, b.Exchanges = name, nil
		if err := s.Write(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	tag := regexp.MustCompile(`^precept:\{(?:precept|[0-9a-f]{2}[0-9a-z]{2})\}:(?:([0-9a-f]{16}|all):)?[a-z0-9:]+$`)
	tags := map[string]bool{}
	for _, key := range listKeys(t, server, "*") {
		found := tag.FindStringSubmatch(key)
		if found == nil {
			t.Fatalf("key %.80q has an unknown form", key)
		}
		tags[found[1]] = true
	}
	if len(tags) != len(names)+2 { // two more parts, for the lists of shards and for keys without a tenant
		t.Errorf("different tenant parts of the keys: got %d, want %d, two more than there are tenants", len(tags), len(names)+2)
	}
	slices.Sort(names)
	if got, err := s.Tenants(t.Context()); err != nil {
		t.Error(err)
	} else if !slices.Equal(got, names) {
		t.Errorf("Tenants = %q, want %q", got, names)
	}
}

func TestLeaseExpiresByTheServersClock(t *testing.T) {
	server := storetest.StartRedis(t)
	one, other := open(t, server.URL()), open(t, server.URL())
	acquire := func(s *redis.Store, owner string, ttl time.Duration) bool {
		t.Helper()
		ok, err := s.AcquireLease(t.Context(), "work", owner, time.Time{}, ttl)
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	if !acquire(one, "one", time.Hour) {
		t.Fatal("AcquireLease by the first owner = false, want true")
	}
	if acquire(other, "other", time.Hour) {
		t.Fatal("AcquireLease by a second owner = true, want false")
	}
	if !acquire(one, "one", time.Millisecond) { // this renewal shortens the lease
		t.Fatal("renewal by the first owner = false, want true")
	}
	eventually(t, "lease expiry", func() error {
		if !acquire(other, "other", time.Hour) {
			return errors.New("the first owner still has the lease")
		}
		return nil
	})
	if acquire(one, "one", time.Hour) {
		t.Error("AcquireLease by the first owner while the second owner has the lease = true, want false")
	}
	if err := one.ReleaseLease(t.Context(), "work", "one"); err != nil {
		t.Error(err)
	}
	if acquire(one, "one", time.Hour) {
		t.Error("AcquireLease by the first owner after ReleaseLease = true, want false")
	}
}

func TestBankVersionsNeverRepeat(t *testing.T) {
	server := storetest.StartRedis(t)
	b := openLessonStore(t, server.URL())
	seen := map[string]bool{}
	for range 3 {
		for _, text := range []string{lessonText, strings.Replace(lessonText, "Look first.", "Look twice.", 1)} {
			if err := setText(t.Context(), b, "a.md", []byte(text)); err != nil {
				t.Fatal(err)
			}
			v, err := b.Version(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if seen[v] {
				t.Error("Version after a change: seen[v] = true, want false")
			}
			if v == "" {
				t.Error("Version after a change is empty")
			}
			seen[v] = true
		}
		server.MustDo(t, "FLUSHALL")
	}
	stale := bank.Change{Version: "1-1", Edits: []bank.Edit{{Name: "a.md", New: []byte(lessonText)}}}
	if err := b.Commit(t.Context(), stale); !errors.Is(err, bank.ErrChanged) {
		t.Errorf("Commit from a version before FLUSHALL: got error %v, want bank.ErrChanged", err)
	}
}
