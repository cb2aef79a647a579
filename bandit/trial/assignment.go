package trial

import (
	"cmp"
	"slices"
	"strings"
)

// Arm names one measured lesson text: "slug@" and the first 12 hex digits of the content hash.
type Arm string

// LoopArm is the loop warning's arm.
const LoopArm Arm = "loop-warning@1"

// Slug returns the lesson name.
func (a Arm) Slug() string {
	if i := strings.LastIndexByte(string(a), '@'); i >= 0 {
		return string(a[:i])
	}
	return string(a)
}

// RulePrefix is the prefix of the arm for a section in a rules file, which is "rule:FILE#section@hash". In a section's
// pick, Injected means that the section was kept, not cut out.
const RulePrefix = "rule:"

// IsRule reports whether the arm is a section in a rules file.
func (a Arm) IsRule() bool { return strings.HasPrefix(string(a), RulePrefix) }

const likeSuffix = "~like"

// LikenessSlug returns the slug in the arm of a lesson that matched by likeness, that is, because of a similar text
// instead of an exact match. Such picks have a separate arm and effect.
func LikenessSlug(slug string) string { return slug + likeSuffix }

// LessonSlug removes the suffix that LikenessSlug adds.
func LessonSlug(name string) string { return strings.TrimSuffix(name, likeSuffix) }

// LikenessArm returns the arm for the same lesson, matched by likeness.
func (a Arm) LikenessArm() Arm {
	slug := a.Slug()
	return Arm(LikenessSlug(slug)) + a[len(slug):]
}

// Match is a lesson that matched in a session. Later turns do not change a match.
type Match struct {
	Arm         Arm        `json:"arm"`
	MatchEffect float64    `json:"del"`           // change in expected reward given the match
	PassReason  PassReason `json:"why,omitempty"` // why the lesson was not picked; empty for a pick and in a control session
}

// PassReason is the reason why a matching lesson was not picked.
type PassReason string

// The reasons.
const (
	PassedSlots PassReason = "slots" // better lessons took all slots in the turn or in the session
	PassedRoom  PassReason = "room"  // the text exceeds the room in the block or in the session
	PassedRank  PassReason = "rank"  // the chooser expects no gain above the cost
)

// Pick is a lesson chosen for a session, with the random decision and the rewards that were expected at that time.
type Pick struct {
	Slug        string      `json:"slug"`
	Arm         Arm         `json:"arm"`
	Eps         float64     `json:"eps"` // probability of withholding
	Injected    bool        `json:"inj"`
	MeanEffect  float64     `json:"m"`   // the chooser's mean effect at the pick
	Offset      float64     `json:"off"` // expected session reward without the lesson
	Centre      float64     `json:"c"`   // expected reward before the random decision; the report subtracts it from the reward
	Tokens      int         `json:"tok,omitempty"`
	Turn        int         `json:"turn"`
	Trial       string      `json:"tr,omitempty"` // name of the planned trial, empty for none
	Propensity  float64     `json:"p"`            // (1-eps)(1-control): probability of injection, for the export
	Measurement Measurement `json:"o,omitzero"`   // outcome measurement; set after the random decision
}

// Assignment holds a session's random decisions and expected rewards, which never change once they are set. A session's
// deltas are a pure function of the Assignment and the reward. The caller sets Category, Model and Day before the first
// Decide.
type Assignment struct {
	Control          bool           `json:"ctl,omitempty"`
	ControlP         float64        `json:"g"` // probability of Control
	Category         string         `json:"cat"`
	Model            string         `json:"model,omitempty"` // model in the first request; bounded at close (Counters.CountedModelName)
	Tools            int            `json:"tools,omitempty"` // tools in the first request
	Base             float64        `json:"base"`            // expected reward without a lesson, set with Control
	Centre           float64        `json:"c,omitempty"`     // centre for the global comparison, set at the first match
	Decided          bool           `json:"dec,omitempty"`   // Control and Base are set
	Looped           bool           `json:"lp,omitempty"`    // a loop was found before the first match
	Matched          []Match        `json:"m,omitempty"`
	Picks            []Pick         `json:"p,omitempty"`
	StartUnix        int64          `json:"at,omitempty"`    // session start, in seconds since 1970
	Day              int32          `json:"day"`             // session start in days since 1970: the bucket in the dated counters
	Excluded         bool           `json:"ex,omitempty"`    // outside the experiment; Exclude sets the field
	HasMeasuredRules bool           `json:"rul,omitempty"`   // a request before the decision about Control had a measured section; the session is not in the comparison between treated and control
	Refused          bool           `json:"rf,omitempty"`    // the upstream refused a changed request; the session stays in the experiment
	CutRefused       bool           `json:"unc,omitempty"`   // the upstream refused a request without the cut rules file sections; the session stays in the sections' measurement
	RewardAtClose    *RewardAtClose `json:"first,omitempty"` // reward at close; later feedback does not change this field
	Graded           bool           `json:"gr,omitempty"`    // closed by a release that counts graded rewards, late rewards and surrogates; a correction must not remove what was never added
	Reward           string         `json:"rw,omitempty"`    // reward definition at close; empty for the default definition

	ExcludedFor ExclusionReason `json:"exf,omitempty"` // set with Excluded; empty in a record from an earlier release
}

// RewardAtClose is a session's reward at close.
type RewardAtClose struct {
	Y    float64 `json:"y"`
	Tier int     `json:"tier,omitempty"`
}

// FlipControl makes the session a control session, which gets no lessons, with probability control. Only the first call
// makes the decision. The result reports whether this call did so.
func (a *Assignment) FlipControl(salt, session string, control float64) bool {
	if a.Decided {
		return false
	}
	a.Decided, a.ControlP = true, control
	a.Control = Coin(salt, ForControl, session, "") < control
	return true
}

// Flip decides at random whether a pick is withheld, with probability p.Eps, and appends the pick.
func (a *Assignment) Flip(salt, session string, p Pick) {
	purpose := ForHoldout
	if p.Arm.IsRule() {
		purpose = ForRule
	}
	p.Injected = Coin(salt, purpose, session, p.Slug) >= p.Eps
	p.Propensity = (1 - p.Eps) * (1 - a.ControlP)
	a.Picks = append(a.Picks, p)
}

// Clone returns a copy that later decisions do not change.
func (a *Assignment) Clone() Assignment {
	out := *a
	out.Matched, out.Picks = slices.Clone(a.Matched), slices.Clone(a.Picks)
	return out
}

// Pick returns the pick with a slug.
func (a *Assignment) Pick(slug string) (Pick, bool) {
	if i := slices.IndexFunc(a.Picks, func(p Pick) bool { return p.Slug == slug }); i >= 0 {
		return a.Picks[i], true
	}
	return Pick{}, false
}

// PickByArm returns the pick with an arm: one lesson text or one section version.
func (a *Assignment) PickByArm(arm Arm) (Pick, bool) {
	if i := slices.IndexFunc(a.Picks, func(p Pick) bool { return p.Arm == arm }); i >= 0 {
		return a.Picks[i], true
	}
	return Pick{}, false
}

// Match returns the match with an arm. The loop warning never has a match, because a match would change the expected
// reward, which is fixed before a loop is found.
func (a *Assignment) Match(arm Arm) (Match, bool) {
	if i := slices.IndexFunc(a.Matched, func(m Match) bool { return m.Arm == arm }); i >= 0 {
		return a.Matched[i], true
	}
	return Match{}, false
}

// HasMatchOrLoop reports whether a lesson matched, or a loop was found before the first match. A later loop is ignored,
// because a lesson may have caused it.
func (a *Assignment) HasMatchOrLoop() bool { return a.Looped || len(a.Matched) > 0 }

// InComparison reports whether the session is in the comparison between treated and control sessions. A session with a
// measured section in a rules file is not: the section may have been cut, and control sessions keep every section.
func (a *Assignment) InComparison() bool { return a.HasMatchOrLoop() && !a.HasMeasuredRules }

// Merge joins two copies that diverged on two replicas. It keeps the decisions in either copy; decisions in both copies
// are equal. aIsOlder reports whether a is the older copy.
func (a *Assignment) Merge(b *Assignment, aIsOlder bool) {
	base, other := a, b
	if !a.Decided || b.Decided && !aIsOlder {
		base, other = b, a
	}
	out := base.Clone()
	out.Matched, out.Picks = mergeMatchesAndPicks(base, other)
	if out.Category == "" {
		out.Category, out.Day, out.StartUnix, out.Tools, out.Model = other.Category, other.Day, other.StartUnix, other.Tools, other.Model
	}
	out.Excluded, out.HasMeasuredRules = a.Excluded || b.Excluded, a.HasMeasuredRules || b.HasMeasuredRules
	out.ExcludedFor = cmp.Or(base.ExcludedFor, other.ExcludedFor)
	out.Refused, out.CutRefused = a.Refused || b.Refused, a.CutRefused || b.CutRefused
	*a = out
}

// mergeMatchesAndPicks joins the matches and picks. If a lesson is in both copies, the entry in first is kept.
func mergeMatchesAndPicks(first, second *Assignment) (matched []Match, picks []Pick) {
	matched, picks = slices.Clone(first.Matched), slices.Clone(first.Picks)
	for _, m := range second.Matched {
		if !slices.ContainsFunc(matched, func(x Match) bool { return x.Arm.Slug() == m.Arm.Slug() }) {
			matched = append(matched, m)
		}
	}
	for _, p := range second.Picks {
		pos := slices.IndexFunc(picks, func(x Pick) bool { return x.Slug == p.Slug })
		if pos < 0 {
			picks = append(picks, p)
			continue
		}
		picks[pos].Measurement.Recurred = picks[pos].Measurement.Recurred || p.Measurement.Recurred
	}
	return matched, picks
}
