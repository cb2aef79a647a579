// Package banktest is the conformance suite for bank.Storage, where lessons are stored. bank.Directory and redis.Bank
// pass the suite.
package banktest

import (
	"strings"
	"testing"
	"time"

	"precept/inject/bank"
	"precept/inject/lesson"
)

// Open returns an empty storage.
type Open func(t *testing.T) bank.Storage

// Run tests whether a bank.Storage behaves as bank.Bank needs.
func Run(t *testing.T, open Open) {
	t.Helper()
	for _, c := range []struct {
		name string
		run  func(*testing.T, *fixture)
	}{
		{"a proposal is quarantined until approved", testProposal},
		{"an author's claims are ignored", testClaims},
		{"an invalid lesson is refused with a code", testRefusals},
		{"an action on an unseen version is refused", testSeenVersions},
		{"an agent's own lesson is active only for that agent", testOwnLesson},
		{"a lesson in another scope is reported as missing", testOtherScopes},
		{"a lesson in the format of gptme keeps the format", testGptmeForm},
		{"a revision is quarantined again", testRevision},
		{"new references are added to the evidence once", testCitations},
		{"an archived lesson can be read and restored", testArchive},
		{"a hand-written text is stored, edited and checked", testPut},
		{"writes beyond the limits are refused", testWriteLimits},
		{"many later events do not reset a limit", testLimitsInLongLog},
		{"a tenant has a lesson limit", testTenantLimit},
		{"concurrent writes lose no lesson", testConcurrentWrites},
		{"ten agents write three hundred lessons concurrently", testConcurrentRecords},
		{"a lesson with the same title is written again", testRepeatedRecords},
		{"new texts replace all lessons", testReplace},
		{"changing an outdated text is refused", testOutdatedTexts},
		{"a change with an invalid file name is refused", testInvalidNames},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &fixture{now: time.Date(2031, 5, 6, 7, 8, 9, 0, time.UTC), storage: open(t)}
			f.Bank = f.open(bank.Limits{})
			c.run(t, f)
		})
	}
}

// fixture is a bank over an empty storage, with a stopped clock.
type fixture struct {
	Bank    *bank.Bank
	storage bank.Storage
	now     time.Time
}

func (f *fixture) open(limits bank.Limits) *bank.Bank {
	return bank.New(bank.Options{
		Storage: f.storage, Now: func() time.Time { return f.now }, Limits: limits,
		Checks: lesson.Checker{
			Resolve: func(e lesson.Evidence) bool { return e.Kind == "conversation" },
			Secrets: func(s string) []string {
				if strings.Contains(s, "hunter2") {
					return []string{"a password"}
				}
				return nil
			},
		},
	})
}

// state returns the state of a lesson, or "" for a missing or archived lesson.
func (f *fixture) state(t *testing.T, slug string) lesson.State {
	t.Helper()
	book, problems, err := f.Bank.List(t.Context())
	if err != nil || len(problems) > 0 {
		t.Fatalf("List: err = %v, problems = %+v, want none", err, problems)
	}
	s, _ := book.StateAt(slug, f.now)
	return s
}

// draft returns a valid lesson that is not stored.
func draft(slug string) *lesson.Lesson {
	return &lesson.Lesson{
		Slug: slug, Title: "Check the numbers of " + slug + ".", Outcome: "success", Confidence: 0.4,
		Trigger:  lesson.Trigger{Description: "when the task is about " + slug, Keywords: []string{"pages of " + slug}},
		Evidence: []lesson.Evidence{{Kind: "conversation", Ref: "c1"}},
		Advice:   "Read the number of the page first.",
	}
}

func (f *fixture) propose(t *testing.T, p bank.Proposal) bank.Result {
	t.Helper()
	r, err := f.Bank.Propose(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// events formats the log as "action slug from>to", oldest first.
func (f *fixture) events(t *testing.T) (out []string) {
	t.Helper()
	log, err := f.Bank.Log(t.Context(), 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range log {
		out = append(out, e.Action+" "+e.Slug+" "+string(e.From)+">"+string(e.To))
	}
	return out
}

func (f *fixture) checkRefusal(t *testing.T, err error, code lesson.Code) {
	t.Helper()
	faults, ok := validationFaults(err)
	if !ok || len(faults) == 0 || faults[0].Code != code {
		t.Errorf("err = %v, want a refusal with %s as the first code", err, code)
	}
}

// manualText returns the text of a valid, hand-written lesson.
func manualText(slug string) []byte {
	raw, err := lesson.Format(draft(slug))
	if err != nil {
		panic(err)
	}
	return raw
}
