package learn_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"precept/bandit/feedback"
	"precept/detect"
	"precept/internal/sample"
	"precept/internal/session"
	"precept/learn"
	"precept/store"
)

// unterminatedTranscript is the JSON of a transcript without the closing brackets, so that a test can append messages
// and fields.
const unterminatedTranscript = `{"source":"ci","id":"1","messages":[{"role":"user","content":"Paint the shed for amy@example.com."},{"role":"assistant","content":"It is painted."}`

func mustTranscript(t *testing.T, text string) detect.Transcript {
	t.Helper()
	var out detect.Transcript
	if err := detect.ReadTranscripts(strings.NewReader(text), func(tr detect.Transcript) error { out = tr; return nil }); err != nil {
		t.Fatal(err)
	}
	return out
}

func (f *fixture) importer() *learn.Importer {
	return &learn.Importer{Now: f.clock.now, LearningEnabled: f.opts.Content.StoreContent, Sessions: f.backend, Openings: &learn.OpeningIndex{}, Write: f.Import, RedactImported: f.RedactImported}
}

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
	samplesReader := f.backend.backend.(interface {
		EachSample(ctx context.Context, tenant string, since, until time.Time, fn func(session.StoredSample) error) error
	})
	all := map[string]session.StoredSample{}
	if err := samplesReader.EachSample(f.ctx(), "", time.Time{}, time.Time{}, func(s session.StoredSample) error {
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
	assertEqual(t, "first import", importText(tenantA, unterminatedTranscript+`]}`), learn.ImportCounts{Exchanges: 1, Samples: 1, NewSamples: 1})
	before := f.allSamples()
	f.clock.add(time.Hour)
	assertEqual(t, "repeated import", importText(tenantA, unterminatedTranscript+`]}`), learn.ImportCounts{Exchanges: 1, Samples: 1})
	for id, s := range f.allSamples() {
		if !s.Sample.CreatedAt.Equal(before[id].Sample.CreatedAt) {
			t.Errorf("CreatedAt of sample %s = %v, want %v", id, s.Sample.CreatedAt, before[id].Sample.CreatedAt)
		}
		if !s.Sample.CreatedAt.Equal(at) {
			t.Errorf("CreatedAt of sample %s = %v, want %v", id, s.Sample.CreatedAt, at)
		}
	}
	assertEqual(t, "longer transcript", importText(tenantA, unterminatedTranscript+`,{"role":"user","content":"Thanks"},{"role":"assistant","content":"Welcome."}]}`), learn.ImportCounts{Exchanges: 2, Samples: 2, NewSamples: 1})
	assertEqual(t, "import for another tenant", importText("acme", unterminatedTranscript+`]}`), learn.ImportCounts{Exchanges: 1, Samples: 1, NewSamples: 1})
	assertEqual(t, "transcript without an id: new samples", importText(tenantA, `{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}`).NewSamples, 1)
	assertEqual(t, "transcript without an id, same first message: new samples", importText(tenantA, `{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"c"}]}`).NewSamples, 1)
	assertEqual(t, "stored samples", len(f.allSamples()), 5)
	if strings.Contains(string(readAllFiles(t, f.dir)), "amy@example.com") {
		t.Error("the files contain the email address in the transcript, want it redacted")
	}
	f.advancePastClose()
	assertEqual(t, "counters after the imports (imported sessions have no random assignment)", f.counters(tenantA), noCounters)
}

func TestImportWithLearningDisabledFails(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *options) { o.Content.StoreContent = false })
	_, err := f.importer().Import(f.ctx(), tenantA, "coder", mustTranscript(t, unterminatedTranscript+`]}`), time.Unix(1_700_000_000, 0))
	if !errors.Is(err, learn.ErrNotLearning()) {
		t.Errorf("Import: got error %v, want learn.ErrNotLearning", err)
	}
}

func TestImportSkipsOptedOutTenantsAndAgents(t *testing.T) {
	t.Parallel()
	o, err := sample.NewOptOut(nil, []string{"quiet*"}, []string{"acme"})
	if err != nil {
		t.Fatal(err)
	}
	f := newFixture(t, func(opts *options) { opts.Content.OptOut = o })
	for _, tc := range []struct{ tenant, agent string }{{"acme", "coder"}, {tenantA, "quiet-1"}} {
		got, err := f.importer().Import(f.ctx(), tc.tenant, tc.agent, mustTranscript(t, unterminatedTranscript+`]}`), time.Unix(1_700_000_000, 0))
		if err != nil {
			t.Fatalf("Import for tenant %s and agent %s: %v", tc.tenant, tc.agent, err)
		}
		if got != (learn.ImportCounts{OptedOut: 1}) {
			t.Errorf("Import for tenant %s and agent %s = %+v, want %+v", tc.tenant, tc.agent, got, (learn.ImportCounts{OptedOut: 1}))
		}
	}
	assertEqual(t, "samples", len(f.allSamples()), 0)
}

// importRated imports a conversation for tenantA. The arguments messages (additional messages) and outcome (the field
// "success") are JSON fragments, and each of the two begins with a comma or is empty.
func (f *fixture) importRated(messages, outcome string, at time.Time) learn.ImportCounts {
	f.t.Helper()
	text := `{"source":"claude-code","id":"abc","messages":[{"role":"user","content":"Fix the login bug."},{"role":"assistant","content":"Done."}` + messages + `]` + outcome + `}`
	got, err := f.importer().Import(f.ctx(), tenantA, "coder", mustTranscript(f.t.(*testing.T), text), at)
	if err != nil {
		f.t.Fatal(err)
	}
	return got
}

func (f *fixture) importedSession() session.ID {
	f.t.Helper()
	page, err := f.backend.backend.(interface {
		ListSessions(ctx context.Context, tenant string, within session.ListRange) (session.Page[session.ListedSession], error)
	}).ListSessions(f.ctx(), tenantA, session.ListRange{Limit: 10})
	if err != nil {
		f.t.Fatal(err)
	}
	if len(page.List) != 1 {
		f.t.Fatalf("stored sessions: List = %+v, want 1 item", page.List)
	}
	return page.List[0].Row.ID
}

// sampleLabels returns the quality labels that occur in the stored samples, sorted and each once.
func (f *fixture) sampleLabels() string {
	f.t.Helper()
	var labels []string
	for _, s := range f.allSamples() {
		labels = append(labels, s.Sample.Feedback.QualityLabel)
	}
	slices.Sort(labels)
	return strings.Join(slices.Compact(labels), " ")
}

func TestImportStoresOutcomeAsFeedback(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	at := time.Unix(1_700_000_000, 0)
	f.importRated("", `,"success":true`, at)
	id := f.importedSession()
	entries, err := f.backend.Feedback(f.ctx(), tenantA, id)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 {
		t.Fatalf("feedback after the import = %+v, want 1 entry", entries)
	}
	if entries[0].Score != 1 {
		t.Fatalf("feedback after the import: Score = %v, want 1", entries[0].Score)
	}
	if entries[0].Tier != feedback.TierVerifier {
		t.Fatalf("feedback after the import: Tier = %d, want %d", entries[0].Tier, feedback.TierVerifier)
	}
	assertEqual(t, "session reward", f.settledState(id).Reward, 1.0)
	assertEqual(t, "sample labels", f.sampleLabels(), sample.Good)

	settled := f.settledState(id).Version
	f.importRated("", `,"success":true`, at.Add(time.Hour))
	assertEqual(t, "settlement version after a second import", f.settledState(id).Version, settled)
	again, err := f.backend.Feedback(f.ctx(), tenantA, id)
	if err != nil {
		t.Fatal(err)
	}
	if len(again) != 1 {
		t.Fatalf("feedback after a second import = %+v, want 1 entry", again)
	}
	if !again[0].At.Equal(entries[0].At) {
		t.Errorf("feedback after a second import: At = %v, want %v", again[0].At, entries[0].At)
	}
	f.advancePastClose()
	assertEqual(t, "counters", f.counters(tenantA), noCounters)
}

func TestLongerImportReplacesTheOutcome(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	at := time.Unix(1_700_000_000, 0)
	f.importRated(`,{"role":"user","content":"The tests fail."}`, `,"success":true`, at)
	const longer = `,{"role":"user","content":"The tests fail."},{"role":"assistant","content":"I give up."}`
	assertEqual(t, "longer transcript", f.importRated(longer, `,"success":false`, at), learn.ImportCounts{Exchanges: 2, Samples: 2})
	assertEqual(t, "reward after the longer transcript", f.settledState(f.importedSession()).Reward, 0.0)
	before := f.allSamples()
	f.importRated("", `,"success":true`, at.Add(time.Hour))
	assertEqual(t, "reward after the shorter transcript", f.settledState(f.importedSession()).Reward, 0.0)
	assertEqual(t, "samples after the shorter transcript", len(f.allSamples()), len(before))
}

func TestLaterFeedbackRatesImportedSamples(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.importRated("", `,"success":true`, time.Unix(1_700_000_000, 0))
	id := f.importedSession()
	p, err := f.Rate(f.ctx(), tenantA, feedback.Post{SessionID: "claude-code/abc", Entry: userScore("by-name", 1, 0)})
	if err != nil {
		t.Fatal(err)
	}
	if p.Status != store.Joined {
		t.Fatalf("Rate with the session's name: Status = %s, want %s", p.Status, store.Joined)
	}
	f.deliverAndCorrect()
	assertEqual(t, "reward after a person's feedback", f.settledState(id).Reward, 0.0)
	assertEqual(t, "sample labels", f.sampleLabels(), sample.Poor)
	assertEqual(t, "counters", f.counters(tenantA), noCounters)
}

// An earlier release did not settle imported sessions, so feedback changes only the labels of the samples.
func TestLaterFeedbackRatesOlderImportSamples(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	importer := f.importer()
	importer.Sessions = unsettledImports{f.backend}
	if _, err := importer.Import(f.ctx(), tenantA, "coder", mustTranscript(t, unterminatedTranscript+`]}`), time.Unix(1_700_000_000, 0)); err != nil {
		t.Fatal(err)
	}
	id := f.importedSession()
	assertEqual(t, "settlement version", f.settledState(id).Version, int64(0))
	f.postFeedback(tenantA, id, userScore("late", 1, 1))
	f.deliverAndCorrect()
	assertEqual(t, "sample labels", f.sampleLabels(), sample.Good)
	assertEqual(t, "counters", f.counters(tenantA), noCounters)
}

// unsettledImports is a backend whose Settle does nothing.
type unsettledImports struct{ *faultyBackend }

func (unsettledImports) Settle(context.Context, []session.Settlement) ([]bool, error) {
	return nil, nil
}
