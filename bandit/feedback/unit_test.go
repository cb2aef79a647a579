package feedback_test

import (
	"fmt"
	"testing"

	"precept/bandit/feedback"
)

// ForMembers copies at most 32 entries of a unit, to limit the work if a run has thousands of entries and sessions.
func TestForMembersCopiesAtMost32Entries(t *testing.T) {
	t.Parallel()
	entries := []feedback.Entry{{ID: "signal", Rule: "tests"}, {ID: "from-member", CopiedFrom: "m"}}
	for i := range 100 {
		entries = append(entries, feedback.Entry{ID: fmt.Sprint(i), Source: feedback.SourceUser, Turn: 7, Rater: "ann"})
	}
	list := feedback.ForMembers("unit", entries)
	if len(list) != 32 || list[0].Hash != entries[2].CopyForMember("unit").Hash {
		t.Fatalf("ForMembers: got %d entries, beginning with %+v, want the first 32 entries from users", len(list), list[0])
	}
	ids := map[string]bool{}
	for _, e := range list {
		if ids[e.ID] = true; e.CopiedFrom != "unit" || e.Turn != 0 || e.Rater != "ann" || e.Hash != e.ContentHash() {
			t.Errorf("copy = %+v, want CopiedFrom unit, Turn 0, rater ann, and the hash of the copy's content", e)
		}
	}
	if len(ids) != 32 || entries[2].CopyForMember("another").ID == list[0].ID {
		t.Errorf("32 copies have %d different ids, want 32, and different ids in the copies for another member", len(ids))
	}
}

// ForUnit copies feedback to the unit: the feedback from people for all members, and the implicit feedback for the
// first 1,024 members. It does not copy feedback back that came from the unit.
func TestForUnitCopiesMemberFeedbackWithoutText(t *testing.T) {
	t.Parallel()
	own := []feedback.Entry{
		{ID: "by-ann", At: atSecond(1), Source: "user", Type: "score", Score: .5, Tier: 1, Rater: "ann", Label: "good", Comment: "secret", Correction: []byte("1"), Details: []byte("2"), Turn: 3},
		{ID: "implicit", At: atSecond(2), Source: "implicit", Type: "rejection", Tier: 3, Rule: "refusal"},
		{ID: "from-run", At: atSecond(3), Source: "user", Type: "approval", Score: 1, Tier: 1, CopiedFrom: "the run"},
	}
	for number, want := range map[int]int{1: 2, 1024: 2, 1025: 1} {
		if got := feedback.ForUnit("m1", number, own); len(got) != want {
			t.Errorf("member %d: ForUnit = %+v, want %d entries", number, got, want)
		}
	}
	list := feedback.ForUnit("m1", 1, own)
	byAnn, implicit := list[0], list[1]
	if byAnn.Rater == "" || byAnn.Rater == "ann" || byAnn.ID == "by-ann" || byAnn.Hash != byAnn.ContentHash() || implicit.Rater != "" || implicit.Hash == byAnn.Hash {
		t.Errorf(`entry with rater = %+v, entry without rater = %+v, want the first with a rater other than ann, a new id and hash %q, the second with no rater and a hash other than %q`, byAnn, implicit, byAnn.ContentHash(), byAnn.Hash)
	}
	byAnn.ID, byAnn.Hash, byAnn.Rater = "", "", ""
	if want := (feedback.Entry{At: atSecond(1), Source: "user", Type: "score", Score: .5, Tier: 1, Label: "good", CopiedFrom: "m1"}); fmt.Sprint(byAnn) != fmt.Sprint(want) {
		t.Errorf("unit entry = %+v, want %+v", byAnn, want)
	}
	if other := feedback.ForUnit("m2", 1, own); other[0].ID == list[0].ID || other[0].Rater != list[0].Rater {
		t.Errorf("copies of equal entries from two members = %+v and %+v, want different ids and the same rater", other[0], list[0])
	}
	if got := feedback.Reward(append(list, feedback.ForUnit("m2", 2, own[1:2])...), nil); got.Reward != .5 || got.Tier != feedback.TierUser {
		t.Errorf("unit reward = %+v, want .5 in tier %d", got, feedback.TierUser)
	}
}

func TestMissingReturnsNewAndCorrectedEntries(t *testing.T) {
	t.Parallel()
	e := func(id, hash string) feedback.Entry { return feedback.Entry{ID: id, Hash: hash} }
	set := []feedback.Entry{e("same", "1"), e("corrected", "1"), e("more", "1")}
	got := feedback.Missing([]feedback.Entry{e("new", "1"), e("same", "1"), e("corrected", "2")}, set)
	if len(got) != 2 || got[0].ID != "new" || got[1].ID != "corrected" {
		t.Errorf("Missing = %+v, want the entries new and corrected", got)
	}
	if got := feedback.Missing(nil, set); len(got) != 0 {
		t.Errorf("Missing(nil) = %+v, want none", got)
	}
}
