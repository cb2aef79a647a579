package learn_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"precept/detect"
	"precept/internal/sample"
	"precept/internal/session"
	"precept/learn"
)

// unterminatedTranscript is a JSON transcript without the closing brackets.
const unterminatedTranscript = `{"source":"ci","id":"1","messages":[{"role":"user","content":"Paint the shed for amy@example.com."},{"role":"assistant","content":"It is painted."}`

// mustTranscript reads a transcript from its text.
func mustTranscript(t *testing.T, text string) detect.Transcript {
	t.Helper()
	var out detect.Transcript
	if err := detect.Read(strings.NewReader(text), func(tr detect.Transcript) error { out = tr; return nil }); err != nil {
		t.Fatal(err)
	}
	return out
}

// importer returns an importer that writes to the backend of the fixture.
func (f *fixture) importer() *learn.Importer {
	return &learn.Importer{Now: f.clock.now, LearningEnabled: f.opts.Content.Keep, Sessions: f.backend, Openings: &learn.Openings{}, Write: f.Import, Cleanse: f.Cleanse}
}

// readAllFiles returns the content of all files in a directory.
func readAllFiles(t *testing.T, dir string) (all []byte) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		all = append(all, data...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func (f *fixture) allSamples() map[string]session.StoredSample {
	f.t.Helper()
	each := f.backend.backend.(interface {
		EachSample(ctx context.Context, tenant string, since, until time.Time, fn func(session.StoredSample) error) error
	})
	all := map[string]session.StoredSample{}
	if err := each.EachSample(f.ctx(), "", time.Time{}, time.Time{}, func(s session.StoredSample) error {
		all[s.Sample.ID] = s
		return nil
	}); err != nil {
		f.t.Fatal(err)
	}
	return all
}

func TestRepeatedImportAddsNoSamples(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	at := time.Unix(1_700_000_000, 0)
	importText := func(tenant, text string) learn.ImportCounts {
		t.Helper()
		got, err := f.importer().Import(f.ctx(), tenant, "coder", mustTranscript(t, text), at)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	assertEqual(t, "first import", importText(tenantA, unterminatedTranscript+`]}`), learn.ImportCounts{Exchanges: 1, Samples: 1, New: 1})
	before := f.allSamples()
	f.clock.add(time.Hour)
	assertEqual(t, "repeated import", importText(tenantA, unterminatedTranscript+`]}`), learn.ImportCounts{Exchanges: 1, Samples: 1})
	for id, s := range f.allSamples() {
		if !s.Sample.CreatedAt.Equal(before[id].Sample.CreatedAt) || !s.Sample.CreatedAt.Equal(at) {
			t.Errorf("sample %s: CreatedAt = %v after the second import and %v before, want the time %v of the transcript", id, s.Sample.CreatedAt, before[id].Sample.CreatedAt, at)
		}
	}
	assertEqual(t, "import of a longer transcript", importText(tenantA, unterminatedTranscript+`,{"role":"user","content":"Thanks"},{"role":"assistant","content":"Welcome."}]}`), learn.ImportCounts{Exchanges: 2, Samples: 2, New: 1})
	assertEqual(t, "import for another tenant", importText("acme", unterminatedTranscript+`]}`), learn.ImportCounts{Exchanges: 1, Samples: 1, New: 1})
	assertEqual(t, "new samples of a transcript without an id", importText(tenantA, `{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}`).New, 1)
	assertEqual(t, "new samples of a transcript without an id and with the same first message", importText(tenantA, `{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"c"}]}`).New, 1)
	assertEqual(t, "number of stored samples", len(f.allSamples()), 5)
	if strings.Contains(string(readAllFiles(t, f.dir)), "amy@example.com") {
		t.Error("the files contain the email address of the transcript")
	}
	f.advancePastClose()
	assertEqual(t, "counters after imports, which have no random assignment", f.counters(tenantA), noCounters)
}

func TestImportWithLearningDisabledFails(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *options) { o.Content.Keep = false })
	_, err := f.importer().Import(f.ctx(), tenantA, "coder", mustTranscript(t, unterminatedTranscript+`]}`), time.Unix(1_700_000_000, 0))
	if !errors.Is(err, learn.ErrNotLearning()) {
		t.Errorf("Import: err = %v, want learn.ErrNotLearning", err)
	}
}

func TestImportSkipsOptedOutTenantsAndAgents(t *testing.T) {
	t.Parallel()
	o, err := sample.NewOptOut(nil, []string{"quiet*"}, []string{"acme"})
	if err != nil {
		t.Fatal(err)
	}
	f := newFixture(t, func(opts *options) { opts.Content.OptOut = o })
	for _, c := range []struct{ tenant, agent string }{{"acme", "coder"}, {tenantA, "quiet-1"}} {
		got, err := f.importer().Import(f.ctx(), c.tenant, c.agent, mustTranscript(t, unterminatedTranscript+`]}`), time.Unix(1_700_000_000, 0))
		if err != nil || got != (learn.ImportCounts{OptedOut: 1}) {
			t.Errorf("Import for tenant %s, agent %s = %+v, %v, want %+v", c.tenant, c.agent, got, err, learn.ImportCounts{OptedOut: 1})
		}
	}
	assertEqual(t, "number of samples", len(f.allSamples()), 0)
}
