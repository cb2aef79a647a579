package trial

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A planned trial is looked at once, after a number of told picks that was set before it began. Its
// look must be the same for everybody: on every replica, after a restart, in whatever order
// sessions were settled. So each session that was told of when it closed leaves one entry (Looked),
// and the look is taken at the first N of them in the order in which the sessions began. That is a
// function of the set of entries alone, and so anyone can take the look again from an export. What
// is told after a session's closing corrects the row, and not the look: a planned look knows what
// was planned.

// Epsilon is the usual holdout of a trial: it tells most from the fewest picks.
const Epsilon = 0.50

// lookMark begins the scope of a planned trial: no arm and no category does.
const lookMark = "t:"

// LookScope is where the entries of a trial are kept.
func LookScope(k Arm, name string) string { return lookMark + string(k) + "#" + name }

// Name names a planned trial by its beginning and by how many told picks it is to have: the
// same lesson may go through several. It is "" for a trial that is not planned (no picks).
func Name(started time.Time, picks int64) string {
	if picks <= 0 {
		return ""
	}
	return strconv.FormatInt(max(started.Unix(), 0), 10) + "." + strconv.FormatInt(picks, 10)
}

// Planned reads the number of picks out of a trial's name; 0 for what is no name.
func Planned(name string) int64 { return NewLook("", name).Planned }

// entry is one told pick of a planned trial.
type entry struct {
	at       int64  // when its session began, in seconds since 1970
	tie      string // orders the sessions of one second
	z        int64  // millionths
	injected bool
}

// planned holds the entries of one planned trial.
type planned struct {
	mu     sync.Mutex
	list   []entry
	sorted bool
}

// tieDigits is how much of a session's id an entry keeps: enough to order the sessions of one
// second, too little to name one.
const tieDigits = 8

// Looked is what a session adds once, when it closes told, to the planned trials that its picks
// belong to. Value holds z and how the coin fell; it is never 0.
func (a *Assignment) Looked(session string, y float64) []Delta {
	if a.Excluded || math.IsNaN(y) {
		return nil
	}
	var d []Delta
	for i := range a.Picks {
		p := &a.Picks[i]
		if p.Trial == "" {
			continue
		}
		z, ok := Z(clip(y, 0, 1)-p.C, p.Injected, p.Eps)
		if !ok {
			continue
		}
		v := 4*Fixed(z) + 2
		if p.Injected {
			v++
		}
		field := fmt.Sprintf("%d.%s", a.At, session[:min(len(session), tieDigits)])
		d = append(d, Delta{Key{Scope: LookScope(p.Arm, p.Trial), Field: field, Day: a.Day}, v})
	}
	return d
}

// readEntry is the other way round.
func readEntry(d *Delta) (e entry, ok bool) {
	began, tie, ok := strings.Cut(d.Field, ".")
	at, err := strconv.ParseInt(began, 10, 64)
	return entry{at, tie, (d.Value - 2 - d.Value&1) / 4, d.Value&1 == 1}, ok && err == nil && d.Value != 0
}

// count is how many told picks there are.
func (t *planned) count() int64 {
	if t == nil {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return int64(len(t.list))
}

func (t *planned) clone() *planned {
	t.mu.Lock()
	defer t.mu.Unlock()
	return &planned{list: slices.Clone(t.list), sorted: t.sorted}
}

// Look is a planned trial: what was planned, how far it has come, and, once it has all its picks,
// the sums over exactly the first Planned of them. Until then the sums are of what there is, and
// count for nothing.
type Look struct {
	Arm      Arm
	Trial    string // its name
	Began    int64  // seconds since 1970
	Planned  int64
	Told     int64 // closed and told so far
	Taken    bool
	At       int64 // when the last session that counts began
	Z, ZZ    float64
	Injected int64
	Withheld int64
}

// NewLook is that of a trial of which nobody has told yet.
func NewLook(k Arm, name string) Look {
	out := Look{Arm: k, Trial: name}
	began, picks, _ := strings.Cut(name, ".")
	if n, err := strconv.ParseInt(began, 10, 64); err == nil {
		out.Began = n
	}
	if n, err := strconv.ParseInt(picks, 10, 64); err == nil {
		out.Planned = max(n, 0)
	}
	return out
}

// look is the look at the trial, over the entries that are there so far.
func (t *planned) look(k Arm, name string) Look {
	out := NewLook(k, name)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sort()
	out.Told = int64(len(t.list))
	out.Taken = out.Planned > 0 && out.Told >= out.Planned
	for _, e := range t.list[:min(out.Told, out.Planned)] {
		z := real64(e.z)
		out.Z += z
		out.ZZ += z * z
		out.At = e.at
		if e.injected {
			out.Injected++
		} else {
			out.Withheld++
		}
	}
	return out
}

// sort puts the entries into their order; the caller holds mu.
func (t *planned) sort() {
	if !t.sorted {
		slices.SortFunc(t.list, func(x, y entry) int { return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(x.tie, y.tie)) })
		t.sorted = true
	}
}

// PicksFor is how many told picks a planned trial needs so that, with the given power, its
// two-sided test at the given level finds an effect of the given size: (z(1-level/2) + z(power))^2
// V / detect^2, where V = variance Spread(epsilon) is that of z (the usual formula for
// the difference of two means with shares 1-epsilon and epsilon; Lachin, Introduction to sample
// size determination and power analysis for clinical trials, 1981).
func PicksFor(detect, power, level, epsilon, variance float64) int64 {
	if !(detect > 0 && power > 0 && power < 1 && level > 0 && level < 1 && epsilon > 0 && epsilon < 1 && variance > 0) {
		return 0
	}
	k := (Normal(1-level/2) + Normal(power)) / detect
	return int64(math.Ceil(math.Min(k*k*variance*Spread(epsilon), 1e12)))
}

// Detects is the other way round: the size of effect that so many told picks find.
func Detects(picks int64, power, level, epsilon, variance float64) float64 {
	return (Normal(1-level/2) + Normal(power)) * math.Sqrt(variance*Spread(epsilon)/float64(max(picks, 1)))
}

// LookWidth is the half-width of the 95% interval of one planned look: of a number of picks that
// was set beforehand.
func LookWidth(n, variance float64) float64 { return Normal(1-Alpha/2) * math.Sqrt(variance/n) }

// LookP is the two-sided p-value that goes with it.
func LookP(effect, n, variance float64) float64 {
	return math.Erfc(math.Abs(effect) * math.Sqrt(n/(2*variance)))
}
