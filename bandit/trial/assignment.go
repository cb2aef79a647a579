package trial

import (
	"slices"
	"strings"
)

// Arm names what is measured: "slug@" + the first 12 hex digits of the content hash; the loop
// warning's is LoopArm. Another text of the same lesson is another arm.
type Arm string

// LoopArm is the arm of the loop warning.
const LoopArm Arm = "loop-warning@1"

// Slug is the lesson's name: the arm without its content hash.
func (a Arm) Slug() string {
	if i := strings.LastIndexByte(string(a), '@'); i >= 0 {
		return string(a[:i])
	}
	return string(a)
}

// Match is a lesson that matched in a session, frozen.
type Match struct {
	Arm Arm     `json:"arm"`
	Del float64 `json:"del"` // what the match itself says of the session, in units of reward
}

// Pick is a chosen lesson with its coin and frozen offset.
type Pick struct {
	Slug       string  `json:"slug"`
	Arm        Arm     `json:"arm"`
	Eps        float64 `json:"eps"` // propensity of being withheld
	Injected   bool    `json:"inj"`
	M          float64 `json:"m"`   // posterior mean effect when it was picked
	Off        float64 `json:"off"` // expected reward of the session without this lesson
	C          float64 `json:"c"`   // what the report centres the reward on
	Tokens     int     `json:"tok,omitempty"`
	Turn       int     `json:"turn"`
	Trial      string  `json:"tr,omitempty"` // the planned trial that it belongs to
	Propensity float64 `json:"p"`            // 1-eps times (1-control): the chance of being injected, for export
}

// Assignment is everything random and everything expected of a session, frozen when decided. A
// session's contribution to the counters is a pure function of it and of the reward. The caller
// sets Category and Day before the first Decide.
type Assignment struct {
	Control  bool       `json:"ctl,omitempty"`
	ControlP float64    `json:"g"`
	Category string     `json:"cat"`
	Base     float64    `json:"base"`
	C        float64    `json:"c,omitempty"`   // what the global comparison centres on; set at the first match
	Decided  bool       `json:"dec,omitempty"` // Control and Base are set
	Looped   bool       `json:"lp,omitempty"`  // a loop was found before any lesson matched
	Matched  []Match    `json:"m,omitempty"`
	Picks    []Pick     `json:"p,omitempty"`
	At       int64      `json:"at,omitempty"`    // when the session began, in seconds since 1970
	Day      int32      `json:"day"`             // bucket of the dated counters: days since 1970 of the session's start
	Excluded bool       `json:"ex,omitempty"`    // not part of the experiment (late look-up); never for what only treated sessions can meet
	Refused  bool       `json:"rf,omitempty"`    // the upstream took its requests only without what was inserted; it stays in the experiment
	First    *AtClosing `json:"first,omitempty"` // what was told when the session closed, and stays so whatever comes later
	Reward   string     `json:"rw,omitempty"`    // the definition of reward under which the session closed; "" the default one
}

// AtClosing is the reward of a session as it stood at its closing.
type AtClosing struct {
	Y    float64 `json:"y"`
	Tier int     `json:"tier,omitempty"`
}

// Open flips the control coin, once: with the chance control the session gets nothing. It says
// whether it did.
func (a *Assignment) Open(salt, session string, control float64) bool {
	if a.Decided {
		return false
	}
	a.Decided, a.ControlP = true, control
	a.Control = Coin(salt, ForControl, session, "") < control
	return true
}

// Flip flips the holdout coin of a pick, which is withheld with the chance p.Eps, and takes it in.
func (a *Assignment) Flip(salt, session string, p Pick) {
	p.Injected = Coin(salt, ForHoldout, session, p.Slug) >= p.Eps
	p.Propensity = (1 - p.Eps) * (1 - a.ControlP)
	a.Picks = append(a.Picks, p)
}

// Clone is a copy that later decisions do not touch.
func (a *Assignment) Clone() Assignment {
	out := *a
	out.Matched, out.Picks = slices.Clone(a.Matched), slices.Clone(a.Picks)
	return out
}

// Pick finds the pick of a slug, so that a caller can ask how a coin fell that was flipped earlier
// in the session.
func (a *Assignment) Pick(slug string) (Pick, bool) {
	if i := slices.IndexFunc(a.Picks, func(p Pick) bool { return p.Slug == slug }); i >= 0 {
		return a.Picks[i], true
	}
	return Pick{}, false
}

// Match finds what matched of an arm. It finds nothing for an arm that is outside the model of the
// session: a forced one, because a loop is found after the first turn and must not reach a baseline
// that is fixed before.
func (a *Assignment) Match(arm Arm) (Match, bool) {
	if i := slices.IndexFunc(a.Matched, func(m Match) bool { return m.Arm == arm }); i >= 0 {
		return a.Matched[i], true
	}
	return Match{}, false
}

// Enters says whether the session is one of those that the control coin is about: something
// matched, or a loop was found. What is decided by the first of them is not changed by what comes
// after it, which may be a consequence of a warning or of a lesson.
func (a *Assignment) Enters() bool { return a.Looped || len(a.Matched) > 0 }

// Merge joins two copies of one unit's assignment that went on apart, at replicas that did not know
// of each other: the coins are the unit's, so they agree, and what either has decided is decided.
// first says that a's copy is the one that began first.
func (a *Assignment) Merge(b *Assignment, first bool) {
	head, other := a, b
	if !a.Decided || b.Decided && !first {
		head, other = b, a
	}
	out := head.Clone()
	out.Matched, out.Picks = unionOf(head, other)
	if out.Category == "" {
		out.Category, out.Day, out.At = other.Category, other.Day, other.At
	}
	out.Excluded, out.Refused = a.Excluded || b.Excluded, a.Refused || b.Refused
	*a = out
}

// unionOf is what either has matched and picked; of the same lesson, first's.
func unionOf(first, second *Assignment) (matched []Match, picks []Pick) {
	matched, picks = slices.Clone(first.Matched), slices.Clone(first.Picks)
	for _, m := range second.Matched {
		if !slices.ContainsFunc(matched, func(x Match) bool { return x.Arm.Slug() == m.Arm.Slug() }) {
			matched = append(matched, m)
		}
	}
	for _, p := range second.Picks {
		if _, ok := first.Pick(p.Slug); !ok {
			picks = append(picks, p)
		}
	}
	return matched, picks
}
