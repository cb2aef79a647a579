package feedback

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"time"
)

// The tiers, highest first. The highest one that is present decides a session's reward.
const (
	TierUser     = 1 // a person's own words: POST /v1/feedback with source user
	TierVerifier = 2 // a verifier: source system, precept run --verify, the last test run seen in the traffic
	TierImplicit = 3 // read from the traffic: refusals, interrupts
)

// The sources.
const (
	SourceUser     = "user"
	SourceSystem   = "system"
	SourceImplicit = "implicit"
)

// The types.
const (
	TypeApproval   = "approval"
	TypeRejection  = "rejection"
	TypeCorrection = "correction"
	TypeScore      = "score"
)

// The quality labels of the MPLP invariants.
const (
	labelGood       = "good"
	labelAcceptable = "acceptable"
	labelPoor       = "poor"
)

// Entry is one feedback of a session, as stored. Tier is fixed when it is taken in: 1 user, 2
// verifier (system), 3 implicit.
type Entry struct {
	ID         string          `json:"id"`     // idempotency key, ours when none was given
	At         time.Time       `json:"at"`     // when it was received
	Source     string          `json:"source"` // user | system | implicit
	Type       string          `json:"type"`   // approval | rejection | correction | score
	Score      float64         `json:"score"`  // the reward it stands for, 0..1
	Tier       int             `json:"tier"`
	Rater      string          `json:"rater,omitempty"`
	Label      string          `json:"quality_label,omitempty"`
	Comment    string          `json:"comment,omitempty"`
	Correction json.RawMessage `json:"correction,omitempty"`
	Details    json.RawMessage `json:"details,omitempty"`
	Rule       string          `json:"rule,omitempty"` // implicit: the rule that read it
	Turn       int             `json:"turn,omitempty"`
	Via        string          `json:"via,omitempty"`  // what it was said of, where that is another one than whose it is: a member of the run, or its run
	Hash       string          `json:"hash,omitempty"` // of the content, see ContentHash; breaks ties between entries of one id and one time
}

// ContentHash is a hash over everything that the entry says, the time included, Hash itself not: 32
// hex digits.
func (e *Entry) ContentHash() string {
	h := sha256.New()
	for _, s := range []string{
		e.ID, e.Source, e.Type, e.Rater, e.Label, e.Comment, string(e.Correction), string(e.Details), e.Rule,
	} {
		var n [8]byte
		binary.LittleEndian.PutUint64(n[:], uint64(len(s)))
		h.Write(n[:])
		h.Write([]byte(s))
	}
	h.Write([]byte(e.Via))
	h.Write(fmt.Appendf(nil, "%d/%d/%d/%d", e.At.UnixNano(), math.Float64bits(e.Score), e.Tier, e.Turn))
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Post is one body of POST /v1/feedback, checked.
type Post struct {
	Entry
	SessionID, RequestID, ResponseID, SampleID, RunID string // exactly one is set
}

// Received completes a checked post: the time it was received, an id where the sender gave none
// (made by newID), the hash.
func (p Post) Received(at time.Time, newID func() string) Post {
	p.At = at
	if p.ID == "" {
		p.ID = newID()
	}
	p.Hash = p.ContentHash()
	return p
}

// Implicit makes an entry of what was read in the traffic. Its id follows from the session, the
// turn and the rule, so that a turn that is seen again says nothing new.
func Implicit(session string, turn int, tier int, kind, rule string, at time.Time) Entry {
	source := SourceImplicit
	if tier == TierVerifier {
		source = SourceSystem
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%d:%s/%d/%s", len(session), session, turn, rule))
	e := Entry{
		ID: "im-" + hex.EncodeToString(sum[:12]), At: at, Source: source, Type: kind, Score: ScoreOf(kind), Tier: tier, Rule: rule, Turn: turn,
	}
	e.Hash = e.ContentHash()
	return e
}

// OfMember is what an entry of a member says to its unit's reward: the score and its weight, and
// nothing of what was written. Entries of several members differ by their ids, and each member is a
// rater of its own.
func (e *Entry) OfMember(member string) Entry {
	out := Entry{At: e.At, Source: e.Source, Type: e.Type, Score: e.Score, Tier: e.Tier, Label: e.Label, Rule: e.Rule, Via: member}
	if e.Rater != "" {
		out.Rater = shortHash("rater", e.Rater)
	}
	out.ID = "mb-" + shortHash("member", member, e.ID)
	out.Hash = out.ContentHash()
	return out
}

// OfUnit is what an entry of a run says of one of its members.
func (e *Entry) OfUnit(unit string) Entry {
	out := *e
	out.Turn, out.Via, out.ID = 0, unit, "ru-"+shortHash("run", unit, e.ID)
	out.Hash = out.ContentHash()
	return out
}

func shortHash(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		_, _ = fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil)[:12])
}

// ScoreOf is the reward that a type stands for: approval 1, correction 0.5, rejection 0. A score
// stands for itself; for it and for unknown types ScoreOf says 0.
func ScoreOf(kind string) float64 {
	return map[string]float64{TypeApproval: 1, TypeCorrection: 0.5}[kind]
}

// scoreOfLabel is the reward that a quality label stands for when no type was given.
func scoreOfLabel(label string) float64 {
	return map[string]float64{labelGood: 1, labelAcceptable: 0.5}[label]
}
