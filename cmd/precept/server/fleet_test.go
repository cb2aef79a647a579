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

// fleetKeys is the content of fleet.json, the file with a server's copy of the keys that all replicas share.
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
		t.Errorf("fleet.json of the two replicas: got keys %+v and %+v, want equal keys", a, b)
	}
	if m.lessonInjected(first) {
		t.Error("session before the bank has lessons: got a lesson in the request, want none")
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
		t.Errorf("Stats of the Redis store: got %v, error %v, want at least two sessions, no error", n, err)
	}
}

// The random assignments depend on a salt that is stored in Redis. A replica that does not know the salt injects no
// lessons, because another salt would lead to other assignments. After the first start with Redis, the replica has a
// copy of the salt in fleet.json.
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
		t.Errorf("/readyz without Redis: got status %d, body %s, want status 200 and a body that contains degraded", status, body)
	}
	if m.lessonInjected(s) {
		t.Error("session while the salt is unknown: got a lesson in the request, want none")
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
		t.Errorf("restart without Redis: got log line about an unknown salt = %v, lesson injected = %v, want no such line and an injected lesson", unknown, injected)
	}
	if readFleetKeys(t, source) != known {
		t.Errorf("fleet.json after a restart without Redis: got keys %+v, want %+v", readFleetKeys(t, source), known)
	}
	if err := redis.Start(); err != nil { // the server needs Redis to shut down without an error
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
		t.Errorf("keys after a start with another store: got %+v, want keys that all differ from those of the first store, %+v", after, before)
	}
}

// In this test, only the lessons are in Redis. The store is in a file.
func TestStartWithoutRedisLoadsLessonsLater(t *testing.T) {
	redis := storetest.StartRedis(t)
	redis.Kill()
	m := newRecordingModel(t)
	source := newFlagSource(t, injectAllOptions(map[string]string{"upstream": m.URL + "/v1", "lessons": redis.URL()}))
	s := startServer(t, source)
	if !s.console.contains("the lessons cannot be read; no lesson is injected until they can be read again") {
		t.Error("log after a start without Redis: got no line about the unreadable lessons, want one")
	}
	lessonInjected := func() bool { return m.lessonInjected(s) }
	if lessonInjected() {
		t.Error("session before Redis has started: got a lesson in the request, want none")
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
		t.Error("log during the Redis outage: got a line about a faulty lesson file, want none")
	}
	_, health := send(t, http.MethodGet, s.adminURL+"/api/health", map[string]string{"Authorization": "Bearer token"}, "")
	for _, want := range []string{"Lessons in " + redis.URL(), "start Redis, or correct the lessons key", `"Lesson files with faults","value":"0"`} {
		if !strings.Contains(health, want) {
			t.Errorf("/api/health during the Redis outage: got %s, want a body that contains %q", health, want)
		}
	}
	if !lessonInjected() {
		t.Error("new session during the Redis outage: got no lesson, want the lesson that the server has in memory")
	}
	if err := s.stopAndWait(); err != nil {
		t.Error(err)
	}
}

// The replica that holds the lease deletes old exchanges; the other replicas do not. With learning.hot: 0s, no replica
// deletes exchanges or holds the lease.
func TestReplicaReleasesDeletionLease(t *testing.T) {
	redis := storetest.StartRedis(t)
	source := newFlagSource(t, injectAllOptions(map[string]string{"upstream": startModel(t), "store.url": redis.URL()}))
	write := addConfigFile(t, source)
	write("learning: {hot: 10h}\n") // this setting leads to a lease of 30 minutes
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
		t.Error("lease after the replica has stopped: got a held lease, want a released lease")
	}
}
