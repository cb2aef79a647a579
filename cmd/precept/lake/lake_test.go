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

// memory is a store with streams of samples in the memory of a test.
type memory struct {
	streams map[string][]session.StoredSample
	acked   map[string]string
	claimed string
}

func (m *memory) add(stream, tenant, id string, at time.Time) {
	m.streams[stream] = append(m.streams[stream], session.StoredSample{Tenant: tenant, Agent: "coder", Sample: sample.Sample{
		ID: id, Family: sample.DialogResponse, CreatedAt: at, Input: map[string]any{"user_text": "question " + id},
	}})
}

func (m *memory) SampleStreams(context.Context) (map[string]string, error) {
	out := map[string]string{}
	for name, list := range m.streams {
		out[name] = strconv.Itoa(len(list))
	}
	return out, nil
}

func (m *memory) SamplesAfter(_ context.Context, stream, after, until string) (list []session.StoredSample, last string, err error) {
	from, _ := strconv.Atoi(after)
	end := len(m.streams[stream])
	if until != "" {
		end, _ = strconv.Atoi(until)
	}
	if from >= end {
		return nil, after, nil
	}
	to := min(from+3, end)
	for _, s := range m.streams[stream][from:to] {
		if s.Sample.ID != "" { // deleted
			list = append(list, s)
		}
	}
	return list, strconv.Itoa(to), nil
}

func (m *memory) SampleGroups(context.Context, string) ([]string, error) {
	return slices.Collect(maps.Keys(m.acked)), nil
}

func (m *memory) AckSamples(_ context.Context, _ string, positions map[string]string) error {
	maps.Copy(m.acked, positions)
	return nil
}

func (m *memory) Claim(_ context.Context, _, owner string, _ time.Time, _ time.Duration) (bool, error) {
	if m.claimed != "" && m.claimed != owner {
		return false, nil
	}
	m.claimed = owner
	return true, nil
}

func (m *memory) Unclaim(context.Context, string, string) error { m.claimed = ""; return nil }

// files is a place in the memory of a test: a test of many crashes must not wait for the disk.
type files map[string][]byte

func (f files) String() string { return "files" }

func (f files) Get(_ context.Context, name string) (data []byte, version string, err error) {
	if data, ok := f[name]; ok {
		return data, string(data), nil
	}
	return nil, "", fs.ErrNotExist
}

func (f files) Put(_ context.Context, name string, data []byte) error { f[name] = data; return nil }

func (f files) Swap(_ context.Context, name, version string, data []byte) (string, error) {
	if string(f[name]) != version {
		return "", lake.ErrChanged
	}
	f[name] = data
	return string(data), nil
}

// flaky is a place whose call with the number fails and all calls after it, as those of a
// process that was killed.
type flaky struct {
	lake.Place
	left int
	torn bool // the failing call still writes
}

var errKilled = errors.New("killed")

func (f *flaky) Put(ctx context.Context, name string, data []byte) error {
	_, err := f.write(func() (string, error) { return "", f.Place.Put(ctx, name, data) })
	return err
}

func (f *flaky) Swap(ctx context.Context, name, version string, data []byte) (string, error) {
	return f.write(func() (string, error) { return f.Place.Swap(ctx, name, version, data) })
}

func (f *flaky) write(call func() (string, error)) (string, error) {
	if f.left--; f.left >= 0 {
		return call()
	}
	if f.left == -1 && f.torn {
		_, err := call()
		return "", errors.Join(err, errKilled)
	}
	return "", errKilled
}

func drain(t *testing.T, m *memory, place lake.Place, bytes int) error {
	t.Helper()
	now := time.Unix(0, 0)
	return lake.Run(t.Context(), lake.Options{
		Source: m, Shared: m, Group: "lake", Owner: "me", Place: place, Bytes: bytes, Age: time.Hour, Once: true,
		Store: "one", Writer: lake.Process{ID: rand.Text()},
		Now:    func() time.Time { return now },
		Pause:  func(_ context.Context, d time.Duration) error { now = now.Add(d); return nil },
		Report: func(string) {},
	})
}

// row is a column of a file, as a reader of the lake reads it.
type row struct {
	SampleID string `parquet:"sample_id"`
}

// stored returns the sample ids of a lake, sorted, with the folder of each id.
func (f files) stored(t *testing.T) (ids []string, folders map[string]string) {
	t.Helper()
	folders = map[string]string{}
	for name, data := range f {
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

func (f files) ids(t *testing.T) []string {
	t.Helper()
	ids, _ := f.stored(t)
	return ids
}

// fleet returns a store with two streams, three tenants and two days.
func fleet() *memory {
	m := &memory{streams: map[string][]session.StoredSample{}, acked: map[string]string{}}
	for i := range 24 {
		at := time.Date(2031, 5, 1+i%2, 23, 59, 59, 0, time.UTC)
		m.add(fmt.Sprint("s", i%5%2), []string{"default", "a/b", "ü"}[i%3], fmt.Sprintf("id-%02d", i), at)
	}
	return m
}

func wanted(m *memory) (ids []string) {
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

// The folders are named by the day of a sample and its tenant.
func TestFilesArePartitionedByDateAndTenant(t *testing.T) {
	t.Parallel()
	m, out := fleet(), files{}
	if err := drain(t, m, out, 1<<20); err != nil {
		t.Fatal(err)
	}
	ids, folders := out.stored(t)
	if want := wanted(m); !slices.Equal(ids, want) {
		t.Errorf("got ids %v, want %v", ids, want)
	}
	for id, want := range map[string]string{
		"id-00": "date=2031-05-01/tenant=default", "id-01": "date=2031-05-02/tenant=a%2Fb", "id-02": "date=2031-05-01/tenant=%C3%BC",
	} {
		if folders[id] != want {
			t.Errorf("%s is in %s, want %s", id, folders[id], want)
		}
	}
	if m.acked["s0"] != strconv.Itoa(len(m.streams["s0"])) || m.claimed != "" {
		t.Errorf("got the group at %v and the claim of %q, want all of s0 and no claim", m.acked, m.claimed)
	}
}

// A process that is killed at any write, before or after the write took effect, leaves a lake that
// the next process completes: each id once. Samples that were forgotten in between are not written.
func TestEachSampleIsWrittenOnceAfterACrashAtAnyWrite(t *testing.T) {
	t.Parallel()
	for _, torn := range []bool{false, true} {
		for writes := 0; ; writes++ {
			m, out := fleet(), files{}
			err := drain(t, m, &flaky{Place: out, left: writes, torn: torn}, 5000)
			if err == nil {
				break
			}
			if !errors.Is(err, errKilled) {
				t.Fatalf("got error %v, want %v", err, errKilled)
			}
			before := out.ids(t)
			for _, list := range m.streams { // one sample of each stream is forgotten, unless a file already has the sample
				if i := len(list) / 2; !slices.Contains(before, list[i].Sample.ID) {
					list[i].Sample.ID = ""
				}
			}
			m.add("s0", "default", "new", time.Unix(0, 0))
			if err := drain(t, m, out, 5000); err != nil {
				t.Fatalf("got error %v after %d writes, want none", err, writes)
			}
			if got, want := out.ids(t), wanted(m); !slices.Equal(got, want) {
				t.Fatalf("killed at write %d (torn: %v): got ids %v, want %v", writes, torn, got, want)
			}
		}
	}
}

// A sample that was planned and is forgotten before the restart is in no file.
func TestAPlannedFileOfForgottenSamplesIsEmptied(t *testing.T) {
	t.Parallel()
	m, out := &memory{streams: map[string][]session.StoredSample{}, acked: map[string]string{}}, files{}
	m.add("s", "secret", "id-1", time.Unix(0, 0))
	m.add("s", "default", "id-2", time.Unix(0, 0))
	// The state, the plan and both files are written, and the last state is not.
	if err := drain(t, m, &flaky{Place: out, left: 4}, 1<<20); !errors.Is(err, errKilled) {
		t.Fatalf("got error %v, want %v", err, errKilled)
	}
	if got := out.ids(t); len(got) != 2 {
		t.Fatalf("got ids %v, want both", got)
	}
	m.streams["s"][0].Sample.ID = ""
	if err := drain(t, m, out, 1<<20); err != nil {
		t.Fatal(err)
	}
	if got := out.ids(t); !slices.Equal(got, []string{"id-2"}) {
		t.Errorf("got ids %v, want only id-2", got)
	}
}

// A sample that is forgotten while its batch waits for its age is not written.
func TestASampleForgottenWhileTheBatchWaitsIsNotWritten(t *testing.T) {
	t.Parallel()
	m, out := &memory{streams: map[string][]session.StoredSample{}, acked: map[string]string{}}, files{}
	m.add("s", "default", "id-1", time.Unix(0, 0))
	m.add("s", "default", "id-2", time.Unix(0, 0))
	now := time.Unix(0, 0)
	ctx, cancel := context.WithCancel(t.Context())
	err := lake.Run(ctx, lake.Options{
		Source: m, Shared: m, Group: "lake", Owner: "me", Place: out, Bytes: 1 << 20, Age: time.Hour,
		Now: func() time.Time { return now },
		Pause: func(context.Context, time.Duration) error { // after the samples were read
			m.streams["s"][0].Sample.ID = ""
			cancel()
			return context.Canceled
		},
		Report: func(string) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := out.ids(t); !slices.Equal(got, []string{"id-2"}) {
		t.Errorf("got ids %v, want only id-2", got)
	}
}

// A store writes a sample again after it lost its newest data. The lake has the sample already, also
// after a restart.
func TestASampleThatTheStoreWritesAgainIsSkipped(t *testing.T) {
	t.Parallel()
	m, out := fleet(), files{}
	for range 2 {
		if err := drain(t, m, out, 1<<20); err != nil {
			t.Fatal(err)
		}
		m.add("s0", "default", "id-03", time.Unix(0, 0))
		m.add("s9", "default", "id-04", time.Unix(0, 0))
	}
	want := slices.Compact(wanted(m))
	if got := out.ids(t); !slices.Equal(got, want) {
		t.Errorf("got ids %v, want %v", got, want)
	}
}

// A group that is ahead of an empty output, another group in the output, a damaged state and a group
// in use are refused with a remedy.
func TestALakeThatWouldMissSamplesIsRefused(t *testing.T) {
	t.Parallel()
	m, out := fleet(), files{}
	if err := drain(t, m, out, 1<<20); err != nil {
		t.Fatal(err)
	}
	text := out["_precept/state.json"]
	for name, c := range map[string]struct{ state, claimed, want string }{
		"no state":        {"", "", "name the earlier --output, or a new --group"},
		"another group":   {strings.Replace(string(text), `"lake"`, `"other"`, 1), "", "use --group other"},
		"a damaged state": {"{", "", "does not parse"},
		"a newer precept": {strings.Replace(string(text), `"version":1`, `"version":2`, 1), "", "upgrade precept"},
		"another store":   {strings.Replace(string(text), `"store":"one"`, `"store":"two"`, 1), "", "name an --output of its own"},
		"a group in use":  {string(text), "another", "stop the other precept export --follow"},
	} {
		out := files{}
		if c.state != "" {
			out["_precept/state.json"] = []byte(c.state)
		}
		m.claimed = c.claimed
		if err := drain(t, m, out, 1<<20); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want one with %q", name, err, c.want)
		}
		m.claimed = ""
	}
}

// A process that is killed during a batch leaves drafts of the planned files, which the next process removes.
func TestTheNextStartRemovesDrafts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	out, err := lake.OpenPlace(dir, "", func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	m := &memory{streams: map[string][]session.StoredSample{}, acked: map[string]string{}}
	m.add("s", "default", "id-1", time.Unix(0, 0))
	// The state and the plan are written, and the file is not.
	if err := drain(t, m, &flaky{Place: out, left: 2}, 1<<20); !errors.Is(err, errKilled) {
		t.Fatalf("got error %v, want %v", err, errKilled)
	}
	text, _, err := out.Get(t.Context(), "_precept/state.json")
	if err != nil {
		t.Fatal(err)
	}
	var state struct{ Planned struct{ Files []string } }
	if err := json.Unmarshal(text, &state); err != nil || len(state.Planned.Files) != 1 {
		t.Fatalf("got the state %s, error %v, want one planned file", text, err)
	}
	name := filepath.Join(dir, filepath.FromSlash(state.Planned.Files[0]))
	folder, base := filepath.Split(name)
	if err := os.MkdirAll(folder, 0o750); err != nil {
		t.Fatal(err)
	}
	for _, draft := range []string{"." + base + ".KQ7", ".." + base + ".KQ7.123"} {
		if err := os.WriteFile(filepath.Join(folder, draft), []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := drain(t, m, out, 1<<20); err != nil {
		t.Fatal(err)
	}
	if list, err := os.ReadDir(folder); err != nil || len(list) != 1 || list[0].Name() != base {
		t.Errorf("got the files %v, error %v, want only %s", list, err, base)
	}
}

// A directory has whole files only: an unfinished copy of a killed process is removed.
func TestADirectoryReplacesFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	out, err := lake.OpenPlace(dir, "", func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	name := "date=2031-05-01/tenant=[a]/part-1.parquet"
	at := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(at), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(at), ".part-1.parquet.123"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"old", "new"} {
		if err := out.Put(t.Context(), name, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, _, err := out.Get(t.Context(), name); err != nil || string(got) != text {
			t.Errorf("got %q, error %v, want %q", got, err, text)
		}
	}
	if list, err := os.ReadDir(filepath.Dir(at)); err != nil || len(list) != 1 {
		t.Errorf("got %v, error %v, want one file", list, err)
	}
	if _, _, err := out.Get(t.Context(), "none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got error %v, want fs.ErrNotExist", err)
	}
}

// Of two writers that know the same version of a file one succeeds, in a directory.
func TestADirectoryReplacesAKnownVersionOnly(t *testing.T) {
	t.Parallel()
	out, err := lake.OpenPlace(t.TempDir(), "", func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	swap := func(version, text string, want error) string {
		t.Helper()
		next, err := out.Swap(t.Context(), "a/b", version, []byte(text))
		if !errors.Is(err, want) {
			t.Fatalf("%s: got error %v, want %v", text, err, want)
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
		t.Errorf("got %q of version %s, error %v, want the second text", data, version, err)
	}
}

// Names of tenants do not leave the folder, and different names have different folders, also where a disk
// does not distinguish capitals.
func TestNamesOfTenantsAreSafeFolders(t *testing.T) {
	t.Parallel()
	m, out := &memory{streams: map[string][]session.StoredSample{}, acked: map[string]string{}}, files{}
	names := []string{"..", ".", "a=b", "a/../../b", "C:\\x", "%41", "A", "tab\t", strings.Repeat("ü", 300), strings.Repeat("ü", 301), "a", "ACME", "Acme", strings.Repeat("B", 300), strings.Repeat("b", 300)}
	for i, name := range names {
		m.add("s", name, strconv.Itoa(i), time.Unix(0, 0))
	}
	if err := drain(t, m, out, 1<<20); err != nil {
		t.Fatal(err)
	}
	_, folders := out.stored(t)
	distinct := map[string]bool{}
	for _, at := range folders {
		distinct[strings.ToLower(at)] = true // some disks do not distinguish capitals
		if path.Dir(at) != "date=1970-01-01" || len(path.Base(at)) > 255 || strings.ContainsAny(path.Base(at), `/\:`) {
			t.Errorf("got the folder %q, want a safe name of the day 1970-01-01", at)
		}
	}
	if len(distinct) != len(names) {
		t.Errorf("got %d folders, want %d", len(distinct), len(names))
	}
}

// held is a place whose write with the number waits, as that of a process that is paused.
type held struct {
	lake.Place
	left int
	meet func() // runs while the process is paused
}

func (h *held) Put(ctx context.Context, name string, data []byte) error {
	h.wait()
	return h.Place.Put(ctx, name, data)
}

func (h *held) Swap(ctx context.Context, name, version string, data []byte) (string, error) {
	h.wait()
	return h.Place.Swap(ctx, name, version, data)
}

func (h *held) wait() {
	if h.left--; h.left == -1 {
		h.meet()
	}
}

// A process that is paused before any write wakes after its successor has written the lake. Each id is in
// the lake once, no forgotten sample returns, and the first process ends with an error.
func TestEachSampleIsWrittenOnceWithAPausedPredecessor(t *testing.T) {
	t.Parallel()
	for writes := 0; ; writes++ {
		m, out := fleet(), files{}
		paused := false
		err := drain(t, m, &held{Place: out, left: writes, meet: func() {
			paused = true
			before := out.ids(t)
			for _, list := range m.streams {
				if i := len(list) / 2; !slices.Contains(before, list[i].Sample.ID) {
					list[i].Sample.ID = ""
				}
			}
			m.claimed = "" // the claim has ended meanwhile
			if err := drain(t, m, out, 5000); err != nil {
				t.Fatal(err)
			}
			m.add("s0", "default", "new", time.Unix(0, 0))
			if err := drain(t, m, out, 5000); err != nil {
				t.Fatal(err)
			}
		}}, 5000)
		if !paused {
			break
		}
		if got, want := out.ids(t), wanted(m); !slices.Equal(got, want) {
			t.Fatalf("paused at write %d: got ids %v, want %v", writes, got, want)
		}
		if err == nil || !strings.Contains(err.Error(), "another process") {
			t.Fatalf("paused at write %d: got error %v, want one that names the other process", writes, err)
		}
	}
}
