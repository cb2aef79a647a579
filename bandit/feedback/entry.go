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

// The tiers. The highest tier with an entry decides a session's reward.
const (
	TierUser     = 1 // the user: POST /v1/feedback with source user
	TierVerifier = 2 // a verifier: source system, precept run --verify, or the last test, lint or build in the traffic
	TierImplicit = 3 // the traffic: refusals, interrupts, and, with Definition.Sentiment, what the user writes
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

// The quality labels in an MPLP LearningSample (docs/SAMPLES.md).
const (
	labelGood       = "good"
	labelAcceptable = "acceptable"
	labelPoor       = "poor"
)

// The stages of the work that webhooks report: a check result, or the merge or close of a pull request. A rating at the
// end replaces the ratings by checks. Until then, all checks together count as one rater, with the lowest of their
// scores.
const (
	StageCheck = "check"
	StageEnd   = "end"
)

// Entry is one stored feedback on a session.
type Entry struct {
	ID         string          `json:"id"`     // idempotency key, generated if the sender gave none
	At         time.Time       `json:"at"`     // time of receipt
	Source     string          `json:"source"` // user | system | implicit
	Type       string          `json:"type"`   // approval | rejection | correction | score
	Score      float64         `json:"score"`  // reward, 0..1
	Tier       int             `json:"tier"`
	Rater      string          `json:"rater,omitempty"`
	Label      string          `json:"quality_label,omitempty"`
	Comment    string          `json:"comment,omitempty"`
	Correction json.RawMessage `json:"correction,omitempty"`
	Details    json.RawMessage `json:"details,omitempty"`
	Rule       string          `json:"rule,omitempty"` // implicit: the detection rule
	Turn       int             `json:"turn,omitempty"`
	Stage      string          `json:"stage,omitempty"` // from a webhook: check, or end (a merge, close or revert)
	CopiedFrom string          `json:"via,omitempty"`   // session or run from which the entry was copied; empty: not a copy
	Hash       string          `json:"hash,omitempty"`  // content hash; breaks ties between entries with equal ids and times
}

// ContentHash returns a hash of all fields except Hash, in 32 hex digits.
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
	h.Write([]byte(e.CopiedFrom))
	if e.Stage != "" { // otherwise the hash of an entry from an earlier release would change
		h.Write([]byte("\x00" + e.Stage))
	}
	h.Write(fmt.Appendf(nil, "%d/%d/%d/%d", e.At.UnixNano(), math.Float64bits(e.Score), e.Tier, e.Turn))
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Post is one validated body of POST /v1/feedback.
type Post struct {
	Entry                                             Entry
	SessionID, RequestID, ResponseID, SampleID, RunID string // exactly one of these five fields and the next three is set
	Commit, Branch, PullRequest                       string // name all sessions in which the commit, branch or pull request occurred
	IfAnswered                                        bool   // true: do not rate a known session or run that got no successful reply
	HasSenderID                                       bool   // the sender gave the id, and may send the post again; set by WithReceipt
}

// WithReceipt adds the receipt time and the hash, and an id if the sender gave none.
func (p Post) WithReceipt(at time.Time, newID func() string) Post {
	p.Entry.At, p.HasSenderID = at, p.Entry.ID != ""
	if !p.HasSenderID {
		p.Entry.ID = newID()
	}
	p.Entry.Hash = p.Entry.ContentHash()
	return p
}

// NewImplicit returns an entry for a finding in the traffic. The id is derived from the session, turn and rule, so a
// repeated turn adds no second entry.
func NewImplicit(session string, turn int, tier int, kind, rule string, at time.Time) Entry {
	source := SourceImplicit
	if tier == TierVerifier {
		source = SourceSystem
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%d:%s/%d/%s", len(session), session, turn, rule))
	e := Entry{
		ID: "im-" + hex.EncodeToString(sum[:12]), At: at, Source: source, Type: kind, Score: ImpliedScore(kind), Tier: tier, Rule: rule, Turn: turn,
	}
	e.Hash = e.ContentHash()
	return e
}

// CopyForUnit returns a copy of a member's entry for its unit (a run, or a session with sub-agents). The copy has no
// texts. In the unit, each member is a separate rater.
func (e *Entry) CopyForUnit(member string) Entry {
	out := Entry{At: e.At, Source: e.Source, Type: e.Type, Score: e.Score, Tier: e.Tier, Label: e.Label, Rule: e.Rule, Stage: e.Stage, CopiedFrom: member}
	if e.Rater != "" {
		out.Rater = shortHash("rater", e.Rater)
	}
	out.ID = "mb-" + shortHash("member", member, e.ID)
	out.Hash = out.ContentHash()
	return out
}

// CopyForMember returns a copy of a unit's entry for one of the unit's members.
func (e *Entry) CopyForMember(unit string) Entry {
	out := *e
	out.Turn, out.CopiedFrom, out.ID = 0, unit, "ru-"+shortHash("run", unit, e.ID)
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

// ImpliedScore returns the reward for a type: approval 1, correction 0.5, others 0.
func ImpliedScore(kind string) float64 {
	return map[string]float64{TypeApproval: 1, TypeCorrection: 0.5}[kind]
}

func labelScore(label string) float64 {
	return map[string]float64{labelGood: 1, labelAcceptable: 0.5}[label]
}
