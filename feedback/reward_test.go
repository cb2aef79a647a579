package feedback

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func at(sec int) time.Time { return time.Unix(int64(1_700_000_000+sec), 0) }

func TestReward(t *testing.T) {
	e := func(id string, sec, tier int, rater string, score float64) Entry {
		return Entry{ID: id, At: at(sec), Tier: tier, Rater: rater, Score: score, Type: TypeScore}
	}
	for _, c := range []struct {
		name    string
		entries []Entry
		tiers   []int
		want    Outcome
	}{
		{"nobody told", nil, nil, Outcome{}},
		{"one", []Entry{e("a", 1, 1, "", 1)}, nil, Outcome{1, 1, true}},
		{"a rejection is a reward of 0, not none", []Entry{e("a", 1, 1, "", 0)}, nil, Outcome{0, 1, true}},
		{"the highest tier wins", []Entry{e("a", 9, 3, "", 0), e("b", 8, 2, "", .25), e("c", 1, 1, "", 1)}, nil, Outcome{1, 1, true}},
		{"a tier that does not count", []Entry{e("a", 9, 3, "", 0), e("c", 1, 1, "", 1)}, []int{2, 3}, Outcome{0, 3, true}},
		{"no tier that counts", []Entry{e("a", 9, 3, "", 0)}, []int{1, 2}, Outcome{}},
		{"the latest of one rater", []Entry{e("a", 1, 1, "ann", 0), e("b", 2, 1, "ann", 1)}, nil, Outcome{1, 1, true}},
		{"the mean over raters", []Entry{e("a", 1, 1, "ann", 0), e("b", 2, 1, "bob", 1), e("c", 3, 1, "ann", .5)}, nil, Outcome{.75, 1, true}},
		{"the latest of one id", []Entry{e("a", 5, 1, "", 1), e("a", 4, 1, "", 0)}, nil, Outcome{1, 1, true}},
		{"an id that moves to another tier", []Entry{e("a", 1, 1, "", 1), e("a", 2, 3, "", 0)}, nil, Outcome{0, 3, true}},
		{"the same thing twice", []Entry{e("a", 1, 1, "", 1), e("a", 1, 1, "", 1)}, nil, Outcome{1, 1, true}},
		{"no tier at all", []Entry{{ID: "a", Score: 1}}, nil, Outcome{}},
	} {
		if got := Reward(c.entries, c.tiers); got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
}

// entries draws sets in which ids, raters and times collide.
func entries(t *rapid.T) []Entry {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Entry {
		e := Entry{
			ID: rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(t, "id"), At: at(rapid.IntRange(0, 3).Draw(t, "at")), Tier: rapid.IntRange(1, 3).Draw(t, "tier"),
			Rater: rapid.SampledFrom([]string{"", "ann", "bob", "cid"}).Draw(t, "rater"), Score: rapid.Float64Range(0, 1).Draw(t, "score"), Comment: rapid.StringN(0, 3, -1).Draw(t, "comment"),
		}
		if rapid.Bool().Draw(t, "hashed") {
			e.Hash = e.ContentHash()
		}
		return e
	}), 0, 12).Draw(t, "entries")
}

// TestRewardIsOfTheSet: order and repetition of the deliveries change no bit of the reward.
func TestRewardIsOfTheSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		es := entries(t)
		tiers := rapid.SampledFrom([][]int{nil, {1, 2, 3}, {2, 3}, {3, 1}}).Draw(t, "tiers")
		want := Reward(es, tiers)
		shuffled := rapid.Permutation(es).Draw(t, "shuffled")
		if len(es) > 0 {
			shuffled = append(shuffled, rapid.SliceOf(rapid.SampledFrom(es)).Draw(t, "again")...)
		}
		got := Reward(shuffled, tiers)
		if got.OK != want.OK || got.Tier != want.Tier || math.Float64bits(got.Reward) != math.Float64bits(want.Reward) {
			t.Fatalf("%+v and %+v", got, want)
		}
		if want.OK && (want.Reward < 0 || want.Reward > 1) {
			t.Fatalf("%+v", want)
		}
	})
}

// TestRewardHears: a new entry of the highest tier by a new rater is heard.
func TestRewardHears(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		es := entries(t)
		one := Entry{ID: "new", At: at(9), Tier: TierUser, Rater: "new", Score: 1}
		before, after := Reward(es, nil), Reward(append(es, one), nil)
		if !after.OK || after.Tier != TierUser {
			t.Fatalf("%+v", after)
		}
		if before.Tier == TierUser && after.Reward < before.Reward || before.Tier != TierUser && after.Reward != 1 {
			t.Fatalf("before %+v, after %+v", before, after)
		}
	})
}

func TestImplicit(t *testing.T) {
	a := Implicit("s", 3, TierVerifier, TypeApproval, "verify:test", at(1))
	b := Implicit("s", 3, TierVerifier, TypeRejection, "verify:test", at(2))
	c := Implicit("s", 4, TierImplicit, TypeRejection, "refusal:codex", at(2))
	if a.ID != b.ID || a.ID == c.ID || a.Score != 1 || b.Score != 0 || a.Source != SourceSystem || c.Source != SourceImplicit {
		t.Errorf("%+v\n%+v\n%+v", a, b, c)
	}
	if Implicit("s/3", 1, 3, "", "", at(1)).ID == Implicit("s", 3, 3, "", "1", at(1)).ID {
		t.Error("names must not run into each other")
	}
	if got := Reward([]Entry{a, c}, nil); got.Reward != 1 || got.Tier != TierVerifier {
		t.Errorf("%+v", got)
	}
}

func TestContentHash(t *testing.T) {
	base := Entry{ID: "a", At: at(1), Source: "user", Type: "score", Score: .5, Tier: 1}
	seen := map[string]bool{base.ContentHash(): true}
	for i, change := range []func(*Entry){
		func(e *Entry) { e.ID = "b" }, func(e *Entry) { e.At = at(2) }, func(e *Entry) { e.Source = "system" }, func(e *Entry) { e.Type = "approval" }, func(e *Entry) { e.Score = .6 }, func(e *Entry) { e.Tier = 2 },
		func(e *Entry) { e.Rater = "r" }, func(e *Entry) { e.Label = "r" }, func(e *Entry) { e.Comment = "r" }, func(e *Entry) { e.Rule = "r" }, func(e *Entry) { e.Turn = 1 },
		func(e *Entry) { e.Details = []byte("1") }, func(e *Entry) { e.Correction = []byte("1") },
	} {
		e := base
		change(&e)
		if h := e.ContentHash(); seen[h] {
			t.Errorf("change %d does not show in the hash", i)
		} else {
			seen[h] = true
		}
	}
	same := base
	same.Hash, same.At = "x", base.At.UTC()
	if !seen[same.ContentHash()] {
		t.Error("the hash itself and the time zone are not content")
	}
}
