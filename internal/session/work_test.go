package session_test

import (
	"slices"
	"strings"
	"testing"

	"precept/internal/session"
	"precept/internal/work"
)

func newCommitRef(hash string) work.Ref { ref, _ := work.CommitRef(hash, ""); return ref }

func newBranchRef(name, repository string) work.Ref {
	ref, _ := work.BranchRef(name, repository)
	return ref
}

func TestMatchWorkFindsCommitsAndBranches(t *testing.T) {
	r := newRecord("s")
	if keys := r.AddWork(1, []work.Ref{newCommitRef("3f2a9c1"), newBranchRef("fix/x", ""), newBranchRef("fix/y", "acme/shop"), newCommitRef("3f2a9c1")}); len(keys) != 3 {
		t.Errorf("AddWork: got %d new keys, want 3", len(keys))
	}
	for _, tc := range []struct {
		ref  work.Ref
		want bool
	}{
		{newCommitRef("3f2a9c1d5e6f708192a3b4c5d6e7f8091a2b3c4d"), true},
		{newCommitRef("3f2a9c1"), true},
		{newCommitRef("3f2a9c2"), false},
		{newBranchRef("fix/x", ""), true},
		{newBranchRef("fix/y", "acme/shop"), true},
		{newBranchRef("fix/y", "acme/other"), false},
		{newBranchRef("fix/x", "acme/shop"), true},
		{newBranchRef("fix/x", "acme/other"), false}, // the session worked in acme/shop
		{newBranchRef("fix/z", ""), false},
	} {
		if _, got := r.MatchWork(tc.ref); got != tc.want {
			t.Errorf("reference %v: got MatchWork = %v, want %v", tc.ref, got, tc.want)
		}
	}
	r = newRecord("local")
	r.AddWork(1, []work.Ref{newBranchRef("fix/x", "")})
	if _, ok := r.MatchWork(newBranchRef("fix/x", "acme/other")); !ok {
		t.Error("stored branch without a repository: got no match, want a match")
	}
}

func TestRowOmitsHiddenWorkAndBranchNames(t *testing.T) {
	r := newRecord("s")
	r.Thread.Turns = 2
	r.AddWork(1, []work.Ref{newCommitRef("3f2a9c1"), newBranchRef("fix/jane", "acme/shop")})
	r.AddWork(2, []work.Ref{newCommitRef("4f2a9c1")})
	r.SetOptedOut(2, true)
	row, err := r.Row(func(s string) (string, bool) { return s, true })
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{"3f2a9c1": true, "4f2a9c1": false, "jane": false, "acme": false} {
		if got := strings.Contains(string(row.Data), text); got != want {
			t.Errorf("row contains %q = %v, want %v", text, got, want)
		}
	}
	if _, ok := r.MatchWork(newCommitRef("4f2a9c1")); ok {
		t.Error("MatchWork(opted-out turn's commit) = true, want false")
	}
	decoded, err := session.Decode(row.ID, row.Data)
	if err != nil {
		t.Fatal(err)
	}
	if hashes, ok := decoded.MatchWork(newCommitRef("3f2a9c1")); !ok || !slices.Equal(hashes, []string{"3f2a9c1"}) {
		t.Errorf("decoded row: MatchWork = %v, %v, want [3f2a9c1], true", hashes, ok)
	}
}

func TestRecordWorkIsBounded(t *testing.T) {
	r := newRecord("s")
	const digits = "0123456789abcdef"
	for i := range 500 {
		r.AddWork(1, []work.Ref{newCommitRef("abcde" + string([]byte{digits[i/256], digits[i/16%16], digits[i%16]}))})
	}
	if len(r.Thread.Work) != 64 {
		t.Errorf("got %d references to work, want 64", len(r.Thread.Work))
	}
	if _, ok := r.MatchWork(newCommitRef("abcde1f3")); !ok {
		t.Error("MatchWork(newest commit abcde1f3) = false, want true")
	}
}
