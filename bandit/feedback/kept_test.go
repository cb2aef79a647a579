package feedback_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"precept/bandit/feedback"
)

func genTime() *rapid.Generator[time.Time] {
	return rapid.Custom(func(t *rapid.T) time.Time {
		zone := time.FixedZone("", rapid.SampledFrom([]int{0, 3600, -7 * 3600}).Draw(t, "zone"))
		return time.Unix(rapid.Int64Range(-2, 2).Draw(t, "sec"), rapid.SampledFrom([]int64{0, 1, 999_999_999}).Draw(t, "ns")).In(zone)
	})
}

// A rank orders the versions of an entry by time. Two different versions with the same time have different ranks.
func TestRankOrdersVersionsByTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		versions := rapid.SampledFrom([]string{"", "{}", "[]"})
		time1, time2 := genTime().Draw(t, "time1"), genTime().Draw(t, "time2")
		version1, version2 := versions.Draw(t, "version1"), versions.Draw(t, "version2")
		rank1, rank2 := feedback.Rank(time1, []byte(version1)), feedback.Rank(time2, []byte(version2))
		if len(rank1) != feedback.RankSize || len(rank2) != feedback.RankSize {
			t.Fatalf("ranks have %d and %d bytes, want %d", len(rank1), len(rank2), feedback.RankSize)
		}
		switch order := bytes.Compare(rank1, rank2); {
		case !time1.Equal(time2) && order != time1.Compare(time2):
			t.Fatalf("%s and %s: rank order = %d, want %d", time1, time2, order, time1.Compare(time2))
		case time1.Equal(time2) && (order == 0) != (version1 == version2):
			t.Fatalf("%q and %q at the same time: rank order = %d, want 0 only for equal versions", version1, version2, order)
		}
	})
}

// Equal entries have equal encodings, whatever their time zone is, and with or without a monotonic clock reading.
func TestEqualEntriesEncodeToEqualBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := feedback.Entry{
			ID: "a", At: genTime().Draw(t, "at"), Source: "user", Type: "score", Score: 0.25, Tier: feedback.TierUser, Rater: "ann",
			Label: "poor", Comment: "no", Correction: json.RawMessage(`{"x":1}`), Details: json.RawMessage(`[2]`), Rule: "tests", Turn: 3, CopiedFrom: "m", Hash: "h",
		}
		first, err := e.Encode()
		if err != nil {
			t.Fatal(err)
		}
		again := e
		again.At = e.At.In(time.FixedZone("", 5400))
		second, err := again.Encode()
		if err != nil || !bytes.Equal(first, second) {
			t.Fatalf("equal entries: encodings = %s and %s, err = %v, want equal bytes", first, second, err)
		}
		var decoded feedback.Entry
		if err := json.Unmarshal(first, &decoded); err != nil || !decoded.At.Equal(e.At) {
			t.Fatalf("decoding %s: At = %s, err = %v, want %s", first, decoded.At, err, e.At)
		}
		if decoded.At = e.At; !reflect.DeepEqual(decoded, e) {
			t.Fatalf("decoded entry = %+v, want %+v", decoded, e)
		}
	})
	now := time.Now() //nolint:forbidigo // only time.Now returns a time with a monotonic clock reading
	a, b := feedback.Entry{At: now}, feedback.Entry{At: now.Round(0)}
	x, _ := a.Encode()
	if y, _ := b.Encode(); !bytes.Equal(x, y) || !a.At.Equal(now) {
		t.Errorf("encodings with and without a monotonic clock reading = %s and %s, want equal bytes", x, y)
	}
}

// Repeats ignores the time and the hash, and recognizes the correction although the stored JSON escapes its "<".
func TestRepeatsIgnoresTimeAndHash(t *testing.T) {
	t.Parallel()
	e := feedback.Entry{
		ID: "a", At: atSecond(1), Source: "user", Type: "correction", Score: 0.5, Tier: feedback.TierUser, Rater: "ann", Label: "poor", Comment: "no",
		Correction: json.RawMessage(`{"x":"<"}`), Details: json.RawMessage(`[2]`),
	}
	e.Hash = e.ContentHash()
	encoded, err := e.Encode()
	if err != nil {
		t.Fatal(err)
	}
	var stored feedback.Entry
	if err := json.Unmarshal(encoded, &stored); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(e *feedback.Entry){
		"time":       func(*feedback.Entry) {},
		"id":         func(e *feedback.Entry) { e.ID = "b" },
		"source":     func(e *feedback.Entry) { e.Source, e.Tier = "system", feedback.TierVerifier },
		"type":       func(e *feedback.Entry) { e.Type = "score" },
		"score":      func(e *feedback.Entry) { e.Score = 0.25 },
		"rater":      func(e *feedback.Entry) { e.Rater = "bob" },
		"label":      func(e *feedback.Entry) { e.Label = "" },
		"comment":    func(e *feedback.Entry) { e.Comment = "yes" },
		"correction": func(e *feedback.Entry) { e.Correction = json.RawMessage(`{"x":">"}`) },
		"details":    func(e *feedback.Entry) { e.Details = nil },
	} {
		later := e
		later.At = atSecond(2)
		change(&later)
		later.Hash = later.ContentHash()
		if got, want := later.Repeats(&stored), name == "time"; got != want {
			t.Errorf("Repeats(entry with a different %s) = %t, want %t", name, got, want)
		}
	}
}

func TestSortIgnoresArrivalOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := drawEntries(t)
		other := slices.Clone(set)
		rand.Shuffle(len(other), func(i, j int) { other[i], other[j] = other[j], other[i] })
		feedback.Sort(set)
		feedback.Sort(other)
		for i := range set {
			if !set[i].At.Equal(other[i].At) || set[i].ID != other[i].ID {
				t.Fatalf("position %d: got %+v and %+v for two orders of arrival, want the same entry", i, set[i], other[i])
			}
			if i > 0 && (set[i].At.Before(set[i-1].At) || set[i].At.Equal(set[i-1].At) && set[i].ID < set[i-1].ID) {
				t.Fatalf("%+v comes after %+v, want them ordered by time, then id", set[i], set[i-1])
			}
		}
	})
}

// A type or a label implies a score. If a post has several of these, a score or a type has priority over a label.
func TestTypesAndLabelsHaveScores(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]float64{"approval": 1, "correction": .5, "rejection": 0, "score": 0, "love": 0} {
		if got := feedback.ImpliedScore(kind); got != want {
			t.Errorf("ImpliedScore(%s) = %v, want %v", kind, got, want)
		}
	}
	for body, want := range map[string]float64{
		`"quality_label":"good"`: 1, `"quality_label":"acceptable"`: .5, `"quality_label":"poor"`: 0,
		`"quality_label":"acceptable","score":0.75`: .75, `"quality_label":"acceptable","type":"approval"`: 1,
		`"quality_label":"good","type":"correction"`: .5, `"quality_label":"poor","type":"correction"`: .5,
		`"score":1,"type":"approval"`: 1, `"score":0,"type":"rejection"`: 0, `"score":0.5,"type":"correction"`: .5,
		`"score":0.5,"type":"approval"`: 1, `"score":0.5,"type":"rejection"`: 0, `"score":0.9,"type":"correction"`: .5,
	} {
		posts, _, _, err := feedback.Parse([]byte(`{"session_id":"s",` + body + `}`))
		if err != nil || posts[0].Entry.Score != want {
			t.Errorf("%s: posts = %+v, err = %v, want score %v", body, posts, err, want)
		}
	}
}

// If two keys of a post contradict each other, Parse refuses the post. The error names both keys and says how to
// correct the post.
func TestParseRefusesContradictoryPosts(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`"type":"approval","score":0`:               "type approval means score 1, but score is 0; leave score out, or send type score",
		`"type":"rejection","score":1`:              "type rejection means score 0, but score is 1; leave score out, or send type score",
		`"type":"approval","score":0.4`:             "type approval means score 1, but score is 0.4; leave score out, or send type score",
		`"score":1,"quality_label":"poor"`:          "quality_label poor contradicts score 1; leave one out, or correct it",
		`"score":0.25,"quality_label":"good"`:       "quality_label good contradicts score 0.25; leave one out, or correct it",
		`"type":"approval","quality_label":"poor"`:  "quality_label poor contradicts type approval; leave one out, or correct it",
		`"type":"rejection","quality_label":"good"`: "quality_label good contradicts type rejection; leave one out, or correct it",
	} {
		_, _, _, err := feedback.Parse([]byte(`{"session_id":"s",` + body + `}`))
		if err == nil || err.Error() != want {
			t.Errorf("%s: err = %v, want %q", body, err, want)
		}
	}
}
