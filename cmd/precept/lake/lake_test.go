package lake_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"precept/cmd/precept/lake"
	"precept/internal/sample"
	"precept/internal/session"
)

// memoryStore is a store with sample streams, a consumer group and a lease (the exclusive right to write).
type memoryStore struct {
	streams map[string][]session.StoredSample
	acked   map[string]string // position that the consumer group has acknowledged, by stream
	owner   string            // owner of the lease, or "" if the lease is free
}

func (m *memoryStore) add(stream, tenant, id string, at time.Time) {
	m.streams[stream] = append(m.streams[stream], session.StoredSample{Tenant: tenant, Agent: "coder", Sample: sample.Sample{
		ID: id, Family: sample.DialogResponse, CreatedAt: at, Input: map[string]any{"user_text": "question " + id},
	}})
}

func (m *memoryStore) SampleStreams(context.Context) (map[string]string, error) {
	out := map[string]string{}
	for name, list := range m.streams {
		out[name] = strconv.Itoa(len(list))
	}
	return out, nil
}

func (m *memoryStore) SamplesAfter(_ context.Context, stream, after, until string) (list []session.StoredSample, last string, err error) {
	from, _ := strconv.Atoi(after)
	end := len(m.streams[stream])
	if until != "" {
		end, _ = strconv.Atoi(until)
	}
	if from >= end {
		return nil, after, nil
	}
	to := min(from+3, end) // return at most three samples per call
	for _, s := range m.streams[stream][from:to] {
		if s.Sample.ID != "" { // a deleted sample has no id
			list = append(list, s)
		}
	}
	return list, strconv.Itoa(to), nil
}

func (m *memoryStore) SampleGroups(context.Context, string) ([]string, error) {
	return slices.Collect(maps.Keys(m.acked)), nil
}

func (m *memoryStore) AckSamples(_ context.Context, _ string, positions map[string]string) error {
	maps.Copy(m.acked, positions)
	return nil
}

func (m *memoryStore) AcquireLease(_ context.Context, _, owner string, _ time.Time, _ time.Duration) (bool, error) {
	if m.owner != "" && m.owner != owner {
		return false, nil
	}
	m.owner = owner
	return true, nil
}

func (m *memoryStore) ReleaseLease(context.Context, string, string) error { m.owner = ""; return nil }

// memoryStorage keeps files in memory, so that a test with many crashes does not wait for the disk.
type memoryStorage map[string][]byte

func (m memoryStorage) String() string { return "files" }

func (m memoryStorage) Get(_ context.Context, name string) (data []byte, version string, err error) {
	if data, ok := m[name]; ok {
		return data, string(data), nil
	}
	return nil, "", fs.ErrNotExist
}

func (m memoryStorage) Put(_ context.Context, name string, data []byte) error {
	m[name] = data
	return nil
}

func (m memoryStorage) CompareAndSwap(_ context.Context, name, version string, data []byte) (string, error) {
	if string(m[name]) != version {
		return "", lake.ErrChanged
	}
	m[name] = data
	return string(data), nil
}

// interruptedStorage accepts writesLeft writes and fails each later write, as if the process had been killed.
type interruptedStorage struct {
	lake.Storage
	writesLeft int
	afterWrite bool // the first failing write stores its data before it fails
}

var errKilled = errors.New("killed")

func (s *interruptedStorage) Put(ctx context.Context, name string, data []byte) error {
	_, err := s.write(func() (string, error) { return "", s.Storage.Put(ctx, name, data) })
	return err
}

func (s *interruptedStorage) CompareAndSwap(ctx context.Context, name, version string, data []byte) (string, error) {
	return s.write(func() (string, error) { return s.Storage.CompareAndSwap(ctx, name, version, data) })
}

func (s *interruptedStorage) write(call func() (string, error)) (string, error) {
	if s.writesLeft--; s.writesLeft >= 0 {
		return call()
	}
	if s.writesLeft == -1 && s.afterWrite {
		_, err := call()
		return "", errors.Join(err, errKilled)
	}
	return "", errKilled
}

// drain exports a store's samples to the lake, in files of about batchBytes bytes.
func drain(t *testing.T, m *memoryStore, storage lake.Storage, batchBytes int) error {
	t.Helper()
	now := time.Unix(0, 0)
	return lake.Run(t.Context(), lake.Options{
		Source: m, GroupStore: m, Group: "lake", Owner: "me", Storage: storage, BatchBytes: batchBytes, BatchAge: time.Hour, Once: true,
		Store: "one", Writer: lake.Process{ID: rand.Text()},
		Now:    func() time.Time { return now },
		Sleep:  func(_ context.Context, d time.Duration) error { now = now.Add(d); return nil },
		Report: func(string) {},
	})
}

// row contains the columns of a Parquet row that the tests read.
type row struct {
	SampleID string `parquet:"sample_id"`
}

// readSamples returns the sorted ids of the exported samples, and the folder of each sample.
func (m memoryStorage) readSamples(t *testing.T) (ids []string, folders map[string]string) {
	t.Helper()
	folders = map[string]string{}
	for name, data := range m {
		if path.Ext(name) != ".parquet" {
			continue
		}
		rows, err := parquet.Read[row](bytes.NewReader(data), int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			ids = append(ids, r.SampleID)
			folders[r.SampleID] = path.Dir(name)
		}
	}
	slices.Sort(ids)
	return ids, folders
}

func (m memoryStorage) sampleIDs(t *testing.T) []string {
	t.Helper()
	ids, _ := m.readSamples(t)
	return ids
}

// newStoreWithSamples returns a store with two streams, which contain 24 samples from three tenants and two days.
func newStoreWithSamples() *memoryStore {
	m := &memoryStore{streams: map[string][]session.StoredSample{}, acked: map[string]string{}}
	for i := range 24 {
		at := time.Date(2031, 5, 1+i%2, 23, 59, 59, 0, time.UTC)
		m.add(fmt.Sprint("s", i%5%2), []string{"default", "a/b", "ü"}[i%3], fmt.Sprintf("id-%02d", i), at)
	}
	return m
}

// storedIDs returns the sorted ids of the samples in the store. Deleted samples have no id.
func storedIDs(m *memoryStore) (ids []string) {
	for _, list := range m.streams {
		for _, s := range list {
			if s.Sample.ID != "" {
				ids = append(ids, s.Sample.ID)
			}
		}
	}
	slices.Sort(ids)
	return ids
}

func TestFilesArePartitionedByDateAndTenant(t *testing.T) {
	t.Parallel()
	m, out := newStoreWithSamples(), memoryStorage{}
	if err := drain(t, m, out, 1<<20); err != nil {
		t.Fatal(err)
	}
	ids, folders := out.readSamples(t)
	if want := storedIDs(m); !slices.Equal(ids, want) {
		t.Errorf("got samples %v in the lake, want %v", ids, want)
	}
	for id, want := range map[string]string{
		"id-00": "date=2031-05-01/tenant=default", "id-01": "date=2031-05-02/tenant=a%2Fb", "id-02": "date=2031-05-01/tenant=%C3%BC",
	} {
		if folders[id] != want {
			t.Errorf("folder of sample %s: got %s, want %s", id, folders[id], want)
		}
	}
	if m.acked["s0"] != strconv.Itoa(len(m.streams["s0"])) || m.owner != "" {
		t.Errorf("got acknowledged positions %v and lease owner %q, want the end of stream s0 and a free lease", m.acked, m.owner)
	}
}

// The test kills a process before or after each write, deletes samples that are not exported yet, and lets another
// process continue. The lake must then contain exactly the samples that are left in the store.
func TestCrashExportsEachSampleOnce(t *testing.T) {
	t.Parallel()
	for _, afterWrite := range []bool{false, true} {
		for writes := 0; ; writes++ {
			m, out := newStoreWithSamples(), memoryStorage{}
			err := drain(t, m, &interruptedStorage{Storage: out, writesLeft: writes, afterWrite: afterWrite}, 5000)
			if err == nil {
				break
			}
			if !errors.Is(err, errKilled) {
				t.Fatalf("process killed at write %d (with the write stored: %v): err = %v, want %v", writes, afterWrite, err, errKilled)
			}
			before := out.sampleIDs(t)
			for _, list := range m.streams { // delete one sample from each stream, unless it is exported
				if i := len(list) / 2; !slices.Contains(before, list[i].Sample.ID) {
					list[i].Sample.ID = ""
				}
			}
			m.add("s0", "default", "new", time.Unix(0, 0))
			if err := drain(t, m, out, 5000); err != nil {
				t.Fatalf("process after one killed at write %d (with the write stored: %v): err = %v, want none", writes, afterWrite, err)
			}
			if got, want := out.sampleIDs(t), storedIDs(m); !slices.Equal(got, want) {
				t.Fatalf("after a process killed at write %d (with the write stored: %v): got samples %v in the lake, want %v", writes, afterWrite, got, want)
			}
		}
	}
}

// The test kills a process after it has written both files of a batch, but before it writes the state that ends the
// batch. The test then deletes a sample of this batch.
func TestDeletedSampleIsRemovedFromUnfinishedBatch(t *testing.T) {
	t.Parallel()
	m, out := &memoryStore{streams: map[string][]session.StoredSample{}, acked: map[string]string{}}, memoryStorage{}
	m.add("s", "secret", "id-1", time.Unix(0, 0))
	m.add("s", "default", "id-2", time.Unix(0, 0))
	// The process completes four writes: the state, the plan of the batch, and both files.
	if err := drain(t, m, &interruptedStorage{Storage: out, writesLeft: 4}, 1<<20); !errors.Is(err, errKilled) {
		t.Fatalf("killed process: err = %v, want %v", err, errKilled)
	}
	if got := out.sampleIDs(t); len(got) != 2 {
		t.Fatalf("after the kill: got samples %v in the lake, want id-1 and id-2", got)
	}
	m.streams["s"][0].Sample.ID = "" // deleted
	if err := drain(t, m, out, 1<<20); err != nil {
		t.Fatal(err)
	}
	if got := out.sampleIDs(t); !slices.Equal(got, []string{"id-2"}) {
		t.Errorf("after the restart: got samples %v in the lake, want only id-2", got)
	}
}

func TestSampleDeletedWhileBatchWaitsIsNotWritten(t *testing.T) {
	t.Parallel()
	m, out := &memoryStore{streams: map[string][]session.StoredSample{}, acked: map[string]string{}}, memoryStorage{}
	m.add("s", "default", "id-1", time.Unix(0, 0))
	m.add("s", "default", "id-2", time.Unix(0, 0))
	now := time.Unix(0, 0)
	ctx, cancel := context.WithCancel(t.Context())
	err := lake.Run(ctx, lake.Options{
		Source: m, GroupStore: m, Group: "lake", Owner: "me", Storage: out, BatchBytes: 1 << 20, BatchAge: time.Hour,
		Now: func() time.Time { return now },
		Sleep: func(context.Context, time.Duration) error { // called when Run has read both samples
			m.streams["s"][0].Sample.ID = "" // deleted
			cancel()
			return context.Canceled
		},
		Report: func(string) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := out.sampleIDs(t); !slices.Equal(got, []string{"id-2"}) {
		t.Errorf("got samples %v in the lake, want only id-2", got)
	}
}

// A store that has lost its newest data receives the lost samples again, at different positions in the streams.
func TestSampleAddedAgainIsExportedOnce(t *testing.T) {
	t.Parallel()
	m, out := newStoreWithSamples(), memoryStorage{}
	for range 2 {
		if err := drain(t, m, out, 1<<20); err != nil {
			t.Fatal(err)
		}
		m.add("s0", "default", "id-03", time.Unix(0, 0))
		m.add("s9", "default", "id-04", time.Unix(0, 0))
	}
	want := slices.Compact(storedIDs(m))
	if got := out.sampleIDs(t); !slices.Equal(got, want) {
		t.Errorf("got samples %v in the lake, want %v", got, want)
	}
}

// Each error says what the user can do.
func TestRunRefusesForeignOutputOrGroup(t *testing.T) {
	t.Parallel()
	m, out := newStoreWithSamples(), memoryStorage{}
	if err := drain(t, m, out, 1<<20); err != nil {
		t.Fatal(err)
	}
	text := out["_precept/state.json"]
	for name, tc := range map[string]struct{ state, leaseOwner, want string }{
		"no state":      {"", "", "name the earlier --output, or a new --group"},
		"another group": {strings.Replace(string(text), `"lake"`, `"other"`, 1), "", "use --group other"},
		"damaged state": {"{", "", "is not valid JSON"},
		"newer precept": {strings.Replace(string(text), `"version":1`, `"version":2`, 1), "", "upgrade precept"},
		"another store": {strings.Replace(string(text), `"store":"one"`, `"store":"two"`, 1), "", "name a separate --output"},
		"group in use":  {string(text), "another", "stop the other `precept export --follow`"},
	} {
		out := memoryStorage{}
		if tc.state != "" {
			out["_precept/state.json"] = []byte(tc.state)
		}
		m.owner = tc.leaseOwner
		if err := drain(t, m, out, 1<<20); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: Run: err = %v, want an error with %q", name, err, tc.want)
		}
		m.owner = ""
	}
}

// A killed process leaves temporary files behind, whose names begin with the names of the planned files.
func TestNextProcessRemovesTemporaryFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	out, err := lake.OpenStorage(dir, "", func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	m := &memoryStore{streams: map[string][]session.StoredSample{}, acked: map[string]string{}}
	m.add("s", "default", "id-1", time.Unix(0, 0))
	if err := drain(t, m, &interruptedStorage{Storage: out, writesLeft: 2}, 1<<20); !errors.Is(err, errKilled) {
		t.Fatalf("killed process: err = %v, want %v", err, errKilled)
	}
	stateJSON, _, err := out.Get(t.Context(), "_precept/state.json")
	if err != nil {
		t.Fatal(err)
	}
	var state struct{ Planned struct{ Files []string } }
	if err := json.Unmarshal(stateJSON, &state); err != nil || len(state.Planned.Files) != 1 {
		t.Fatalf("after the kill: got state.json %s, error %v, want a state with one planned file, and no error", stateJSON, err)
	}
	name := filepath.Join(dir, filepath.FromSlash(state.Planned.Files[0]))
	folder, base := filepath.Split(name)
	if err := os.MkdirAll(folder, 0o750); err != nil {
		t.Fatal(err)
	}
	for _, temporary := range []string{"." + base + ".KQ7", ".." + base + ".KQ7.123"} {
		if err := os.WriteFile(filepath.Join(folder, temporary), []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := drain(t, m, out, 1<<20); err != nil {
		t.Fatal(err)
	}
	if list, err := os.ReadDir(folder); err != nil || len(list) != 1 || list[0].Name() != base {
		t.Errorf("after the next process: got files %v in the folder, error %v, want only %s and no error", list, err, base)
	}
}

func TestPutReplacesFileInDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	out, err := lake.OpenStorage(dir, "", func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	name := "date=2031-05-01/tenant=[a]/part-1.parquet"
	file := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(file), ".part-1.parquet.123"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"old", "new"} {
		if err := out.Put(t.Context(), name, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, _, err := out.Get(t.Context(), name); err != nil || string(got) != text {
			t.Errorf("Get after Put = %q, %v, want %q, nil", got, err, text)
		}
	}
	if list, err := os.ReadDir(filepath.Dir(file)); err != nil || len(list) != 1 {
		t.Errorf("after Put: got files %v in the folder, error %v, want one file and no error", list, err)
	}
	if _, _, err := out.Get(t.Context(), "none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Get(missing file) error = %v, want fs.ErrNotExist", err)
	}
}

// If two writers call CompareAndSwap with the same version, only the first call succeeds.
func TestCompareAndSwapReplacesOnlyCurrentVersion(t *testing.T) {
	t.Parallel()
	out, err := lake.OpenStorage(t.TempDir(), "", func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	swap := func(version, text string, want error) string {
		t.Helper()
		next, err := out.CompareAndSwap(t.Context(), "a/b", version, []byte(text))
		if !errors.Is(err, want) {
			t.Fatalf("CompareAndSwap(%q): err = %v, want %v", text, err, want)
		}
		return next
	}
	swap("0", "of a missing file", lake.ErrChanged)
	first := swap("", "first", nil)
	swap("", "created again", lake.ErrChanged)
	second := swap(first, "second", nil)
	swap(first, "late", lake.ErrChanged)
	data, version, err := out.Get(t.Context(), "a/b")
	if err != nil || string(data) != "second" || version != second {
		t.Errorf("Get = %q, version %s, error %v, want \"second\", version %s", data, version, err, second)
	}
}

// The folder names of two tenants must differ even on a file system that ignores case.
func TestTenantFoldersAreSafeAndDistinct(t *testing.T) {
	t.Parallel()
	m, out := &memoryStore{streams: map[string][]session.StoredSample{}, acked: map[string]string{}}, memoryStorage{}
	names := []string{"..", ".", "a=b", "a/../../b", "C:\\x", "%41", "A", "tab\t", strings.Repeat("ü", 300), strings.Repeat("ü", 301), "a", "ACME", "Acme", strings.Repeat("B", 300), strings.Repeat("b", 300)}
	for i, name := range names {
		m.add("s", name, strconv.Itoa(i), time.Unix(0, 0))
	}
	if err := drain(t, m, out, 1<<20); err != nil {
		t.Fatal(err)
	}
	_, folders := out.readSamples(t)
	distinct := map[string]bool{}
	for _, folder := range folders {
		distinct[strings.ToLower(folder)] = true
		if path.Dir(folder) != "date=1970-01-01" || len(path.Base(folder)) > 255 || strings.ContainsAny(path.Base(folder), `/\:`) {
			t.Errorf("got tenant folder %q, want a folder in date=1970-01-01 whose name has at most 255 bytes and none of the characters / \\ :", folder)
		}
	}
	if len(distinct) != len(names) {
		t.Errorf("folders, counted without regard to case: got %d, want %d, one for each tenant", len(distinct), len(names))
	}
}

// pausedStorage accepts writesLeft writes, and calls meanwhile once before the next write, as if the process had been
// paused there.
type pausedStorage struct {
	lake.Storage
	writesLeft int
	meanwhile  func()
}

func (s *pausedStorage) Put(ctx context.Context, name string, data []byte) error {
	s.wait()
	return s.Storage.Put(ctx, name, data)
}

func (s *pausedStorage) CompareAndSwap(ctx context.Context, name, version string, data []byte) (string, error) {
	s.wait()
	return s.Storage.CompareAndSwap(ctx, name, version, data)
}

func (s *pausedStorage) wait() {
	if s.writesLeft--; s.writesLeft == -1 {
		s.meanwhile()
	}
}

// While the first process is paused before a write, a second process gets the lease and exports the samples.
func TestPausedProcessExportsEachSampleOnce(t *testing.T) {
	t.Parallel()
	for writes := 0; ; writes++ {
		m, out := newStoreWithSamples(), memoryStorage{}
		wasPaused := false
		err := drain(t, m, &pausedStorage{Storage: out, writesLeft: writes, meanwhile: func() {
			wasPaused = true
			before := out.sampleIDs(t)
			for _, list := range m.streams {
				if i := len(list) / 2; !slices.Contains(before, list[i].Sample.ID) {
					list[i].Sample.ID = ""
				}
			}
			m.owner = "" // the lease has expired
			if err := drain(t, m, out, 5000); err != nil {
				t.Fatal(err)
			}
			m.add("s0", "default", "new", time.Unix(0, 0))
			if err := drain(t, m, out, 5000); err != nil {
				t.Fatal(err)
			}
		}}, 5000)
		if !wasPaused {
			break
		}
		if got, want := out.sampleIDs(t), storedIDs(m); !slices.Equal(got, want) {
			t.Fatalf("after a process paused at write %d: got samples %v in the lake, want %v", writes, got, want)
		}
		if err == nil || !strings.Contains(err.Error(), "another process") {
			t.Fatalf("process paused at write %d: err = %v, want an error that contains \"another process\"", writes, err)
		}
	}
}
