package feedback_test

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"precept/bandit/feedback"
)

func atSecond(sec int) time.Time { return time.Unix(int64(1_700_000_000+sec), 0) }

func TestRewardIsHighestTierMean(t *testing.T) {
	e := func(id string, sec, tier int, rater string, score float64) feedback.Entry {
		return feedback.Entry{ID: id, At: atSecond(sec), Tier: tier, Rater: rater, Score: score, Type: feedback.TypeScore}
	}
	for _, tc := range []struct {
		name    string
		entries []feedback.Entry
		tiers   []int
		want    feedback.SessionReward
	}{
		{"no feedback", nil, nil, feedback.SessionReward{}},
		{"one entry", []feedback.Entry{e("a", 1, 1, "", 1)}, nil, feedback.SessionReward{1, 1, true}},
		{"rejection gives reward 0, not none", []feedback.Entry{e("a", 1, 1, "", 0)}, nil, feedback.SessionReward{0, 1, true}},
		{"three tiers", []feedback.Entry{e("a", 9, 3, "", 0), e("b", 8, 2, "", .25), e("c", 1, 1, "", 1)}, nil, feedback.SessionReward{1, 1, true}},
		{"highest tier is not counted", []feedback.Entry{e("a", 9, 3, "", 0), e("c", 1, 1, "", 1)}, []int{2, 3}, feedback.SessionReward{0, 3, true}},
		{"only uncounted tiers", []feedback.Entry{e("a", 9, 3, "", 0)}, []int{1, 2}, feedback.SessionReward{}},
		{"one rater twice", []feedback.Entry{e("a", 1, 1, "ann", 0), e("b", 2, 1, "ann", 1)}, nil, feedback.SessionReward{1, 1, true}},
		{"two raters", []feedback.Entry{e("a", 1, 1, "ann", 0), e("b", 2, 1, "bob", 1), e("c", 3, 1, "ann", .5)}, nil, feedback.SessionReward{.75, 1, true}},
		{"one id, two versions", []feedback.Entry{e("a", 5, 1, "", 1), e("a", 4, 1, "", 0)}, nil, feedback.SessionReward{1, 1, true}},
		{"new version in another tier", []feedback.Entry{e("a", 1, 1, "", 1), e("a", 2, 3, "", 0)}, nil, feedback.SessionReward{0, 3, true}},
		{"repeated entry", []feedback.Entry{e("a", 1, 1, "", 1), e("a", 1, 1, "", 1)}, nil, feedback.SessionReward{1, 1, true}},
		{"entry without a tier", []feedback.Entry{{ID: "a", Score: 1}}, nil, feedback.SessionReward{}},
		{"same time, greater hash first", []feedback.Entry{{ID: "a", Tier: 1, Hash: "2"}, {ID: "b", Tier: 1, Hash: "1", Score: 1}}, nil, feedback.SessionReward{0, 1, true}},
		{"same time, greater hash last", []feedback.Entry{{ID: "a", Tier: 1, Hash: "1"}, {ID: "b", Tier: 1, Hash: "2", Score: 1}}, nil, feedback.SessionReward{1, 1, true}},
		{"same rater in two member sessions", []feedback.Entry{{ID: "a", Tier: 1, Rater: "ann", CopiedFrom: "m1"}, {ID: "b", Tier: 1, Rater: "ann", CopiedFrom: "m2", Score: 1}}, nil, feedback.SessionReward{.5, 1, true}},
	} {
		if got := feedback.Reward(tc.entries, tc.tiers); got != tc.want {
			t.Errorf("%s: got %+v, want %+v", tc.name, got, tc.want)
		}
	}
}

func drawEntries(t *rapid.T) []feedback.Entry {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) feedback.Entry {
		e := feedback.Entry{
			ID: rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(t, "id"), At: atSecond(rapid.IntRange(0, 3).Draw(t, "at")), Tier: rapid.IntRange(1, 3).Draw(t, "tier"),
			Rater: rapid.SampledFrom([]string{"", "ann", "bob", "cid"}).Draw(t, "rater"), Score: rapid.Float64Range(0, 1).Draw(t, "score"), Comment: rapid.StringN(0, 3, -1).Draw(t, "comment"),
		}
		if rapid.Bool().Draw(t, "hashed") {
			e.Hash = e.ContentHash()
		}
		return e
	}), 0, 12).Draw(t, "entries")
}

func TestRewardIgnoresOrderAndRepetition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries := drawEntries(t)
		tiers := rapid.SampledFrom([][]int{nil, {1, 2, 3}, {2, 3}, {3, 1}}).Draw(t, "tiers")
		want := feedback.Reward(entries, tiers)
		shuffled := rapid.Permutation(entries).Draw(t, "shuffled")
		if len(entries) > 0 {
			shuffled = append(shuffled, rapid.SliceOf(rapid.SampledFrom(entries)).Draw(t, "again")...)
		}
		got := feedback.Reward(shuffled, tiers)
		if got.OK != want.OK || got.Tier != want.Tier || math.Float64bits(got.Reward) != math.Float64bits(want.Reward) {
			t.Fatalf("Reward for a different order of entries = %+v, want %+v", got, want)
		}
		if want.OK && (want.Reward < 0 || want.Reward > 1) {
			t.Fatalf("Reward = %+v, want a number from 0 to 1", want)
		}
	})
}

// If a new rater in the highest tier gives the score 1, the reward must not decrease, if it already came from this
// tier.
func TestRewardIncludesNewRater(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries := drawEntries(t)
		one := feedback.Entry{ID: "new", At: atSecond(9), Tier: feedback.TierUser, Rater: "new", Score: 1}
		before, after := feedback.Reward(entries, nil), feedback.Reward(append(entries, one), nil)
		if !after.OK || after.Tier != feedback.TierUser {
			t.Fatalf("Reward with a user entry = %+v, want tier %d", after, feedback.TierUser)
		}
		if before.Tier == feedback.TierUser && after.Reward < before.Reward || before.Tier != feedback.TierUser && after.Reward != 1 {
			t.Fatalf("reward before and after a new rater's score of 1: got %+v and %+v, want no decrease, and 1 if the rater is the first user", before, after)
		}
	})
}

// Repeated calls of Reward must give the same result, although Reward iterates over maps and a floating-point sum
// depends on the order of its terms. Reward ignores entries without a tier.
func TestRewardIsDeterministic(t *testing.T) {
	var entries []feedback.Entry
	for i := range 12 {
		entries = append(entries, feedback.Entry{ID: fmt.Sprint("r", i), Tier: 2, Rater: fmt.Sprint(i), Score: 1 / float64(i+3)}, feedback.Entry{ID: fmt.Sprint("none", i), Score: 1})
	}
	want := feedback.Reward(entries, nil)
	for range 100 {
		if got := feedback.Reward(entries, nil); got != want || got.Tier != 2 {
			t.Fatalf("repeated call = %+v, want %+v in tier 2", got, want)
		}
	}
}

// DecisiveIDs returns the ids of the entries that determine the reward: the latest entry of each rater in the highest
// tier that counts.
func TestDecisiveIDsAreLatestPerRater(t *testing.T) {
	entries := []feedback.Entry{
		{ID: "old", At: atSecond(1), Tier: 2, Rater: "ann"},
		{ID: "new", At: atSecond(2), Tier: 2, Rater: "ann"},
		{ID: "bob", At: atSecond(1), Tier: 2, Rater: "bob"},
		{ID: "implicit", At: atSecond(9), Tier: 3},
		{ID: "nothing", At: atSecond(9)},
	}
	for want, tiers := range map[string][]int{"map[bob:true new:true]": nil, "map[implicit:true]": {3}, "map[]": {1}} {
		if got := fmt.Sprint(feedback.DecisiveIDs(entries, tiers)); got != want {
			t.Errorf("tiers %v: DecisiveIDs = %s, want %s", tiers, got, want)
		}
	}
}

// A later finding of the same rule about the same turn gets the same id, and thus replaces the earlier finding.
func TestNewImplicitIDNamesTurnAndRule(t *testing.T) {
	a := feedback.NewImplicit("s", 3, feedback.TierVerifier, feedback.TypeApproval, "verify:test", atSecond(1))
	b := feedback.NewImplicit("s", 3, feedback.TierVerifier, feedback.TypeRejection, "verify:test", atSecond(2))
	c := feedback.NewImplicit("s", 4, feedback.TierImplicit, feedback.TypeRejection, "refusal:codex", atSecond(2))
	if a.Hash != a.ContentHash() || a.ID != b.ID || a.ID == c.ID || a.Score != 1 || b.Score != 0 || a.Source != feedback.SourceSystem || c.Source != feedback.SourceImplicit {
		t.Errorf("entries = %+v, %+v, %+v, want the first two with one id and scores 1 and 0, and the sources system and implicit", a, b, c)
	}
	if feedback.NewImplicit("s/3", 1, 3, "", "", atSecond(1)).ID == feedback.NewImplicit("s", 3, 3, "", "1", atSecond(1)).ID {
		t.Error(`feedback on turn 1 of session "s/3" and on turn 3 of session "s" has the same id`)
	}
	if got := feedback.Reward([]feedback.Entry{a, c}, nil); got.Reward != 1 || got.Tier != feedback.TierVerifier {
		t.Errorf("Reward(verifier's approval, implicit rejection) = %+v, want 1 in tier %d", got, feedback.TierVerifier)
	}
}

func TestContentHashCoversEveryField(t *testing.T) {
	base := feedback.Entry{ID: "a", At: atSecond(1), Source: "user", Type: "score", Score: .5, Tier: 1}
	seen := map[string]bool{base.ContentHash(): true}
	for i, change := range []func(*feedback.Entry){
		func(e *feedback.Entry) { e.ID = "b" }, func(e *feedback.Entry) { e.At = atSecond(2) }, func(e *feedback.Entry) { e.Source = "system" }, func(e *feedback.Entry) { e.Type = "approval" }, func(e *feedback.Entry) { e.Score = .6 }, func(e *feedback.Entry) { e.Tier = 2 },
		func(e *feedback.Entry) { e.Rater = "r" }, func(e *feedback.Entry) { e.Label = "r" }, func(e *feedback.Entry) { e.Comment = "r" }, func(e *feedback.Entry) { e.Rule = "r" }, func(e *feedback.Entry) { e.Turn = 1 },
		func(e *feedback.Entry) { e.CopiedFrom = "r" }, func(e *feedback.Entry) { e.Details = []byte("1") }, func(e *feedback.Entry) { e.Correction = []byte("1") },
	} {
		e := base
		change(&e)
		if h := e.ContentHash(); seen[h] {
			t.Errorf("change %d: got the hash of a different entry, want a hash that no other entry has", i)
		} else {
			seen[h] = true
		}
	}
	shifted := base // Source and Type concatenated are unchanged
	shifted.Source, shifted.Type = "users", "core"
	if seen[shifted.ContentHash()] {
		t.Errorf("entries %+v and %+v have the same hash, want different hashes", base, shifted)
	}
	same := base
	same.Hash, same.At = "x", base.At.UTC()
	if !seen[same.ContentHash()] {
		t.Error("content hash depends on Hash or on the time zone")
	}
}

// All checks from a webhook count as one rater, who gives the lowest of their scores. When a merge or a revert ends the
// work, this result replaces the checks. An entry from a person has priority over both.
func TestWorkEndReplacesChecks(t *testing.T) {
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	entry := func(rater, stage string, minute int, score float64) feedback.Entry {
		return feedback.Entry{ID: rater + stage + strconv.Itoa(minute), At: at.Add(time.Duration(minute) * time.Minute), Source: feedback.SourceSystem, Type: feedback.TypeScore, Tier: feedback.TierVerifier, Score: score, Rater: rater, Stage: stage}
	}
	lint, test := entry("github lint", feedback.StageCheck, 1, 0.2), entry("github test", feedback.StageCheck, 2, 0.7)
	again, merged, reverted := entry("github lint", feedback.StageCheck, 3, 0.7), entry("github", feedback.StageEnd, 4, 1), entry("github", feedback.StageEnd, 5, 0)
	late := entry("github test", feedback.StageCheck, 6, 0.2)
	person := feedback.Entry{ID: "p", At: at, Source: feedback.SourceUser, Type: feedback.TypeApproval, Tier: feedback.TierUser, Score: 1}
	for name, tc := range map[string]struct {
		entries []feedback.Entry
		want    float64
	}{
		"one check failed":                      {[]feedback.Entry{lint, test}, 0.2},
		"failed check passed again":             {[]feedback.Entry{lint, test, again}, 0.7},
		"merged":                                {[]feedback.Entry{lint, test, merged}, 1},
		"merged, then a late check":             {[]feedback.Entry{test, merged, late}, 1},
		"reverted":                              {[]feedback.Entry{merged, reverted, test}, 0},
		"approved by a person after the revert": {[]feedback.Entry{merged, reverted, person}, 1},
	} {
		for range 2 {
			if got := feedback.Reward(tc.entries, nil); got.Reward != tc.want {
				t.Errorf("%s: Reward = %v, want %v", name, got.Reward, tc.want)
			}
			slices.Reverse(tc.entries)
		}
	}
}
