package report

import (
	"strconv"
	"strings"
	"time"

	"precept/bandit/trial"
)

// builder holds what all rows share.
type builder struct {
	in     Input
	global trial.Stats
	proof  float64 // up to which p evidence is a discovery
	claim  float64 // the same of the intervals that exclude 0 and prove nothing
	sigma2 float64

	nextProof, nextClaim float64 // at which p one more would be a discovery

	trials map[trial.Arm][]Look
	alarm  float64 // the e-value from which a check fails
}

// States that no lesson of the bank has.
const (
	stateEdited  = "edited"          // an older text of a listed lesson
	stateRemoved = "removed"         // no longer in the bank
	stateShown   = "shown otherwise" // the text of a listed lesson, presented in another way than now
)

// past says that no session gets a lesson in this state any more.
func past(state string) bool {
	return state == stateEdited || state == stateRemoved || state == stateShown
}

// hash is the arm's part of the content hash.
func hash(k trial.Arm) string {
	slug := k.Slug()
	if len(slug) == len(k) {
		return ""
	}
	text, _, _ := strings.Cut(string(k[len(slug)+1:]), ".") // without how it is presented
	return text
}

func mean(sum, n float64) *float64 {
	if n <= 0 {
		return nil
	}
	return new(sum / n)
}

func date(day int32) string { return time.Unix(int64(day)*86_400, 0).UTC().Format(time.DateOnly) }

// span writes a window in days where it is some.
func span(d time.Duration) string {
	const day = 24 * time.Hour
	if d%day == 0 {
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	return d.String()
}

func since(in Input) int32 { return trial.Day(in.Now.Add(-in.Window)) }

func windowed(s trial.Stats, from int32) (w sums) {
	for _, d := range s.Days {
		if d.Day >= from {
			w.add(&d)
		}
	}
	return w
}

// bands is the effect as it stood at the end of each day, from the first that may be shown.
func bands(s trial.Stats, tight float64) []Band {
	var out []Band
	var t sums
	for _, d := range s.Days {
		t.add(&d)
		if t.shown() {
			e, lo, hi := t.interval(tight)
			out = append(out, Band{date(d.Day), e, lo, hi})
		}
	}
	return out
}

func holdout(s trial.Stats) sums { return sums{s.N, s.Z, s.ZZ, s.M1, s.M0} }

// TextOf names the text of an arm, SLUG@HASH, however it was presented: opinions are of texts.
func TextOf(arm trial.Arm) string { return arm.Slug() + "@" + hash(arm) }

// running is the trial of a lesson that goes on.
const running = "running"
