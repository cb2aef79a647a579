package server_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"precept/admin"
	"precept/cmd/precept/server"
	"precept/inject/bank/banktest"
	"precept/store/storetest"
)

// fleetKeys is the content of fleet.json, a server's copy of the keys that all replicas share.
type fleetKeys struct {
	Store, Salt string
	Secret      string `json:"tenant_secret"`
}

func readFleetKeys(t *testing.T, source *server.Source) (keys fleetKeys) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(loadConfig(t, source).DataDir, "fleet.json"))
	if err == nil {
		err = json.Unmarshal(b, &keys)
	}
	if err != nil || keys.Salt == "" || keys.Secret == "" {
		t.Fatalf("fleet.json: got keys %+v, error %v, want a salt and a secret", keys, err)
	}
	return keys
}

func TestReplicasShareKeysLessonsAndReport(t *testing.T) {
	redis := storetest.StartRedis(t)
	m := newRecordingModel(t)
	firstSource := newFlagSource(t, injectAllOptions(map[string]string{
		"upstream": m.URL + "/v1", "store.url": redis.URL(), "lessons": "redis://", "reward.close_after": "50ms",
	}))
	secondSource := newFlagSource(t, injectAllOptions(map[string]string{
		"upstream": m.URL + "/v1", "store.url": redis.URL(), "lessons": "redis://", "reward.close_after": "50ms",
	}))
	first, second := startServer(t, firstSource), startServer(t, secondSource)
	if a, b := readFleetKeys(t, firstSource), readFleetKeys(t, secondSource); a != b {
		t.Errorf("fleet.json: got %+v and %+v, want equal keys", a, b)
	}
	if m.lessonInjected(first) {
		t.Error("empty bank: a session got a lesson, want none")
	}
	tools := testTools()
	storage, err := tools.OpenRedisBank(loadConfig(t, firstSource))
	if err != nil {
		t.Fatal(err)
	}
	defer storage.Close() //nolint:errcheck // Redis has confirmed every write
	lessons := t.TempDir()
	banktest.WriteLesson(t, lessons, "look-first", "targets")
	if _, findings, err := tools.NewBank(storage).Replace(t.Context(), map[string][]byte{"look-first.md": []byte(readLookFirst(t, lessons))}, "ann"); err != nil {
		t.Fatalf("Replace: findings %+v, error %v", findings, err)
	}
	for _, s := range []*runningServer{first, second} {
		eventually(t, "lesson in a session on each replica", func() bool { return m.lessonInjected(s) })
	}
	first.sendSession("coder", "here", "build the targets", `"type":"score","score":1`)
	second.sendSession("coder", "there", "build the targets", `"type":"score","score":0`)
	for _, s := range []*runningServer{first, second} {
		eventually(t, "both sessions in each replica's report", func() bool {
			r, err := s.server.Report(t.Context(), admin.ReportQuery{Tenant: "default"})
			return err == nil && len(r.Lessons) == 1 && r.Lessons[0].NInjected == 2
		})
	}
	for _, s := range []*runningServer{first, second} {
		if err := s.stopAndWait(); err != nil {
			t.Error(err)
		}
	}
	db, err := tools.OpenFiltered(t.Context(), loadConfig(t, secondSource))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // nothing was written
	if n, err := db.Stats(t.Context()); err != nil || n["sessions"] < 2 {
		t.Errorf("Redis store Stats = %v, error %v, want at least two sessions", n, err)
	}
}

// Redis has the salt for the random assignments. A replica with a different salt would make different assignments.
// After one start with Redis, fleet.json has a copy of the salt.
func TestStartWithoutRedisServesWithoutLessons(t *testing.T) {
	redis := storetest.StartRedis(t)
	redis.Kill()
	m := newRecordingModel(t)
	lessons := t.TempDir()
	banktest.WriteLesson(t, lessons, "look-first", "targets")
	source := newFlagSource(t, injectAllOptions(map[string]string{"upstream": m.URL + "/v1", "store.url": redis.URL(), "lessons": lessons}))
	s := startServer(t, source)
	for _, line := range []string{"precept starts without the store and retries", "the fleet's salt is unknown"} {
		if !s.console.contains(line) {
			t.Errorf("the log lacks %q", line)
		}
	}
	if status, body := send(t, http.MethodGet, s.dataURL+"/readyz", nil, ""); status != http.StatusOK || !strings.Contains(body, "degraded") {
		t.Errorf("/readyz: got status %d, body %s, want status 200, degraded in the body", status, body)
	}
	if m.lessonInjected(s) {
		t.Error("unknown salt: a session got a lesson, want none")
	}
	tools := testTools()
	if db, err := tools.OpenFiltered(t.Context(), loadConfig(t, source)); err == nil {
		t.Errorf("OpenFiltered without Redis: err = nil, want an error; Close error = %v", db.Close())
	}
	if err := redis.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "log line about the keys", func() bool { return s.console.contains("the fleet's keys were read from Redis and are now in use") })
	eventually(t, "session with a lesson", func() bool { return m.lessonInjected(s) })
	if err := s.stopAndWait(); err != nil {
		t.Error(err)
	}
	known := readFleetKeys(t, source)
	redis.Kill()
	restarted := startServer(t, source)
	if unknown, injected := restarted.console.contains("the fleet's salt is unknown"), m.lessonInjected(restarted); unknown || !injected {
		t.Errorf("restart without Redis: unknown salt in the log = %v, lesson injected = %v, want false, true", unknown, injected)
	}
	if readFleetKeys(t, source) != known {
		t.Errorf("fleet.json after a restart without Redis: got keys %+v, want %+v", readFleetKeys(t, source), known)
	}
	if err := redis.Start(); err != nil { // the shutdown needs Redis
		t.Fatal(err)
	}
	if err := restarted.stopAndWait(); err != nil {
		t.Error(err)
	}
}

func TestChangedStoreURLReplacesFleetKeys(t *testing.T) {
	redis, other := storetest.StartRedis(t), storetest.StartRedis(t)
	options := map[string]string{"store.url": redis.URL(), "data_dir": t.TempDir()}
	source := newFlagSource(t, options)
	if err := startServer(t, source).stopAndWait(); err != nil {
		t.Fatal(err)
	}
	before := readFleetKeys(t, source)
	options["store.url"] = other.URL()
	moved := newFlagSource(t, options)
	if err := startServer(t, moved).stopAndWait(); err != nil {
		t.Fatal(err)
	}
	if after := readFleetKeys(t, moved); after.Salt == before.Salt || after.Secret == before.Secret || after.Store == before.Store {
		t.Errorf("second store: got keys %+v, want none of the keys of the first store, %+v", after, before)
	}
}

// Only the lessons are in Redis.
func TestStartWithoutRedisLoadsLessonsLater(t *testing.T) {
	redis := storetest.StartRedis(t)
	redis.Kill()
	m := newRecordingModel(t)
	source := newFlagSource(t, injectAllOptions(map[string]string{"upstream": m.URL + "/v1", "lessons": redis.URL()}))
	s := startServer(t, source)
	if !s.console.contains("the lessons cannot be read; no lesson is injected until they can be read again") {
		t.Error("the log lacks the line about the unreadable lessons")
	}
	lessonInjected := func() bool { return m.lessonInjected(s) }
	if lessonInjected() {
		t.Error("before Redis started: a session got a lesson, want none")
	}
	if err := redis.Start(); err != nil {
		t.Fatal(err)
	}
	tools := testTools()
	storage, err := tools.OpenRedisBank(loadConfig(t, source))
	if err != nil {
		t.Fatal(err)
	}
	defer storage.Close() //nolint:errcheck // Redis has confirmed every write
	lessons := t.TempDir()
	banktest.WriteLesson(t, lessons, "look-first", "targets")
	if _, findings, err := tools.NewBank(storage).Replace(t.Context(), map[string][]byte{"look-first.md": []byte(readLookFirst(t, lessons))}, "ann"); err != nil {
		t.Fatalf("Replace: findings %+v, error %v", findings, err)
	}
	eventually(t, "session with the lesson", lessonInjected)
	redis.Kill()
	eventually(t, "log line about the outage", func() bool {
		return s.console.contains("the lessons cannot be read; the lessons in memory stay in effect") && s.console.contains("start Redis, or correct the lessons key")
	})
	if s.console.contains("a lesson file has faults and is not used") {
		t.Error("the log reports the Redis outage as a faulty lesson file")
	}
	_, health := send(t, http.MethodGet, s.adminURL+"/api/health", map[string]string{"Authorization": "Bearer token"}, "")
	for _, want := range []string{"Lessons in " + redis.URL(), "start Redis, or correct the lessons key", `"Lesson files with faults","value":"0"`} {
		if !strings.Contains(health, want) {
			t.Errorf("/api/health during the outage: got %s, want a body with %q", health, want)
		}
	}
	if !lessonInjected() {
		t.Error("outage: a new session got no lesson, want the lesson in memory")
	}
	if err := s.stopAndWait(); err != nil {
		t.Error(err)
	}
}

// Only the replica with the lease deletes old exchanges. With learning.hot: 0s, no exchange is deleted.
func TestReplicaReleasesDeletionLease(t *testing.T) {
	redis := storetest.StartRedis(t)
	source := newFlagSource(t, injectAllOptions(map[string]string{"upstream": startModel(t), "store.url": redis.URL()}))
	write := addConfigFile(t, source)
	write("learning: {hot: 10h}\n") // a lease of 30 minutes
	s := startServer(t, source)
	leaseCountIs := func(want int64) func() bool {
		return func() bool { return redis.MustDo(t, "EXISTS", "precept:{precept}:lock:claim:cool lake") == want }
	}
	eventually(t, "lease taken", leaseCountIs(1))
	write("learning: {hot: 0s}\n")
	eventually(t, "lease released after the reload", leaseCountIs(0))
	write("learning: {hot: 10h}\n")
	eventually(t, "lease taken after another reload", leaseCountIs(1))
	if err := s.stopAndWait(); err != nil {
		t.Error(err)
	}
	if !leaseCountIs(0)() {
		t.Error("stopped replica: the lease is held, want it released")
	}
}
