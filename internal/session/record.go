package session

import (
	"maps"
	"sync"
	"time"

	"precept/bandit/trial"
	"precept/internal/wire"
)

// Record is the state of a session or a run. Lock it before you access a field or call a method other than MemberNow.
// Identity.ID and Identity.Tenant never change, and can be read without the lock.
type Record struct {
	sync.Mutex

	Identity   Identity
	Unit       Unit
	Thread     Thread
	Agents     Agents
	Assignment trial.Assignment // random decisions (coins) and chosen lessons (picks); empty if the record with the ID Unit.ID has them
	Lessons    Lessons
	Facts      Facts
	OptOut     OptOut
	Mailbox    Mailbox
	State      State
}

// Identity names a session. NewRecord and NewRun set every field. Begin updates Seen, Model and Dialect at each main
// request (a request in the conversation, not a side request).
type Identity struct {
	ID      ID        `json:"-"`      // row key, not part of the document
	Tenant  string    `json:"tenant"` // from the credential; no other tenant can read or rate the session
	Agent   string    `json:"agent"`
	Name    string    `json:"name"`   // from the client, else from precept; feedback refers to the session by this name
	Method  Method    `json:"method"` // with ByNew and ByEcho, two sessions with identical histories may be confused
	Started time.Time `json:"started"`
	// Seen is the newest main request's time. A store keeps the row with the later Seen, so Begin never sets Seen back,
	// even if the clock is set back.
	Seen    time.Time    `json:"seen"`
	Model   string       `json:"model,omitempty"`
	Dialect wire.Dialect `json:"dialect"`
}

// Unit identifies the record with the session's coins, the random decisions to inject or withhold a lesson. A unit is a
// run, or a sub-agent's parent session. All sessions in a unit get the same lessons, because an agent may pass the
// advice on to the other agents.
type Unit struct {
	ID           string `json:"id,omitempty"`        // the unit's ID in hex, set by proxy before the record is added; empty if the session is its own unit
	RunName      string `json:"run,omitempty"`       // set with ID
	MemberNumber int    `json:"member_no,omitempty"` // from 1; set by AddMember; MemberKey has this number
	Members      int    `json:"members,omitempty"`   // number of sessions; set by AddMember, so that feedback reaches each session
	IsRun        bool   `json:"is_run,omitempty"`    // set by NewRun: a run has no conversation of its own

	Replica string `json:"-"` // key for this process in Thread.ReplicaCounts; set when the store keeps the record in memory
}

// Thread is the conversation's state. Begin and SetLastTurn set the fields at a main request, and AddReply at the
// reply.
type Thread struct {
	Turns       int      `json:"turns"`                  // main turns; a retry adds none
	ListHash    uint64   `json:"list_hash,omitempty"`    // the newest main request's list
	Items       int      `json:"items,omitempty"`        // list length
	ItemsBefore int      `json:"items_before,omitempty"` // Items at the previous turn; a retry does not change ItemsBefore, and therefore gets the same decisions
	LastTurn    LastTurn `json:"last_turn,omitzero"`
	Replied     bool     `json:"replied,omitempty"`     // the newest main request had a complete reply, so the same list again is a new turn and not a retry
	FirstWords  uint64   `json:"first_words,omitempty"` // hash over the user's words at the first turn; distinguishes conversations with a shared name
	// Calls are the newest calls from replies, by id. They are needed to find loops and errors in a delta request
	// (wire.Request.Delta), which contains only outputs. Begin clears them if the request contains the history.
	Calls         map[string]wire.Call     `json:"calls,omitempty"`
	CallOrder     []string                 `json:"call_order,omitempty"` // Calls ids, oldest first
	Work          []Work                   `json:"work,omitempty"`       // commits, branches and pull requests in tool results; see AddWork
	Totals        trial.Totals             `json:"tally,omitzero"`       // sums for the session, or for all sessions in the unit; a pick's outcomes are differences between sums
	Used          trial.Usage              `json:"used,omitzero"`        // tokens in main turns, as reported by the upstream; a lesson's cost is computed from these
	Models        ModelTokens              `json:"models,omitempty"`     // the same tokens, and output tokens, by model; a run has none
	ReplicaCounts map[string]ReplicaCounts `json:"counted,omitempty"`    // for a unit with several sessions: each replica's part of Totals, Used and Models
}

// Agents describes the agents that sent the session's main requests. SideReason compares them with a request, to
// recognise side requests. Record.Begin sets the fields.
type Agents struct {
	HasTools            bool     `json:"has_tools,omitempty"`   // a request had tools
	SystemHash          uint64   `json:"system_hash,omitempty"` // for the current agent
	ToolsHash           uint64   `json:"tools_hash,omitempty"`  // for the current agent
	ToolNames           []uint32 `json:"tool_names,omitempty"`  // sorted short hashes; they recognise an agent that adds a tool
	PromptsWithoutTools []uint64 `json:"toolless,omitempty"`    // from agents without tools that continued the conversation
	PreviousPrompts     []uint64 `json:"former,omitempty"`      // from agents with tools that passed the conversation on
}

// Lessons are a session's matches and the inserted text (blocks). Package inject sets them. Every turn inserts the same
// blocks byte for byte, because a change would invalidate the provider's prompt cache and spoil the experiment.
type Lessons struct {
	Matched    []string  `json:"matched,omitempty"` // slugs in order; a lesson matches once per session
	Blocks     []Block   `json:"blocks,omitempty"`
	BlockBytes int       `json:"block_bytes,omitempty"` // bytes of inserted and withheld text; withheld text counts, so that no other lesson takes its place
	Picks      int       `json:"picks_spent,omitempty"` // picks in this session, including withheld ones; at most 2 * inject.k in a unit's member
	Loops      LoopState `json:"loops,omitzero"`
}

// OptOut records which parts of the session must not be stored.
type OptOut struct {
	NoLearn bool  `json:"no_learn,omitempty"` // no content is stored; set at the start
	Turns   []int `json:"turns,omitempty"`    // turns that opted out; set by SetOptedOut

	ByRequest          bool  `json:"-"` // the client or a path opted out, not only the configuration; the store writes an OptOutMark for other replicas
	PendingTurns       []int `json:"-"` // not yet searched for an opt-out; set by AddPendingTurn
	HasStorableSession bool  `json:"-"` // the store may keep at least one of the run's sessions; otherwise the run gets no row
}

// Mailbox holds answers to the agent's /lesson commands. Package proxy adds them, and package inject inserts them into
// the next turn.
type Mailbox struct {
	Answers []string `json:"answers,omitempty"` // to insert into the next turn
	Pending []string `json:"owed,omitempty"`    // requests with commands in the reply; another replica may be writing the answers, so the next turn waits for a moment
	Offered bool     `json:"offered,omitempty"` // a request contained the information about /lesson commands
}

// State holds independent flags of a session.
type State struct {
	Closed         bool `json:"closed,omitempty"`   // the counters include the session; set from the row, so that the session is not counted twice
	PassThrough    bool `json:"refused,omitempty"`  // the upstream refused insertions, so nothing more is inserted; set by Injector.RecordRefusal
	NoDeletions    bool `json:"uncut,omitempty"`    // the upstream refused a request with rules file sections deleted, so nothing more is deleted; set by Injector.RecordRefusedCuts
	Ambiguous      bool `json:"doubted,omitempty"`  // requests may belong to another session; set by proxy; the session gets lessons, but is in no report
	StartedOffline bool `json:"stand_in,omitempty"` // began while the store did not answer; set by proxy; a stored row for the session replaces this one
	// Answered is true if an upstream successfully answered a main request. Otherwise the session is no evidence about
	// a lesson. AddReply sets the flag.
	Answered bool `json:"answered,omitempty"`

	OverLimit bool `json:"beyond,omitempty"` // a request exceeded limits.inspect_bytes or limits.items; set by proxy, which logs only the first such request

	// LastPlaceholder maps kinds of redacted values to the highest placeholder number in stored exchanges, from which
	// numbering continues after a restart and at another replica.
	LastPlaceholder map[string]int `json:"placeholders,omitempty"`

	Dirty bool `json:"-"` // changed since last written to a row
}

// Block is inserted text. Every turn inserts the same text again as long as the request contains the anchor: the
// message or tool result into which the text was inserted.
type Block struct {
	Anchor         wire.Anchor `json:"anchor"`
	Text           string      `json:"text"`
	Turn           int         `json:"turn"` // turn that inserted the text
	Slugs          []string    `json:"slugs,omitempty"`
	Loop           bool        `json:"loop,omitempty"`  // the text is a loop warning
	KeptByProvider bool        `json:"once,omitempty"`  // inserted into a request without history; the provider stores the text, so it must not be inserted again
	AnchorRemoved  bool        `json:"gone,omitempty"`  // compaction removed the anchor
	Superseded     bool        `json:"moved,omitempty"` // the anchor is gone, and a later block repeats the lessons
	Supersedes     bool        `json:"again,omitempty"` // repeats the lessons of a block with a removed anchor
}

// LastTurn describes the newest main request's new content, and the reply. It shows which content is new in the next
// request, because a block is inserted only before new content.
type LastTurn struct {
	FirstNew      int      `json:"from"`               // first new item
	Items         []uint64 `json:"items,omitempty"`    // hashes of new items
	AnsweredCalls []uint64 `json:"answered,omitempty"` // hashes of answered call ids
	Reply         []uint64 `json:"reply,omitempty"`    // hashes by which the reply is recognised in a request; set by AddReply
}

// LoopState is the loop detector's memory. Package inject sets the fields.
type LoopState struct {
	WarnedCalls map[string]bool `json:"warned,omitempty"` // ids of calls with a warning, inserted or withheld; a call gets at most one
	Count       int             `json:"count,omitempty"`  // loops found
	DeltaState  []byte          `json:"delta,omitempty"`  // detector state for delta requests without the history
}

// Snapshot returns a copy of the fields needed to close the session, because requests may change the record at the same
// time.
func (r *Record) Snapshot() *Record {
	t := &r.Thread
	return &Record{
		Identity: r.Identity, Unit: r.Unit, Thread: Thread{Turns: t.Turns, Used: t.Used, Models: t.Models, Totals: t.Totals, ReplicaCounts: maps.Clone(t.ReplicaCounts)},
		Assignment: r.Assignment.Clone(), State: r.State,
	}
}

// NewRecord returns a new session's record.
func NewRecord(tenant string, c Claim, r Resolved, now time.Time) *Record {
	now = now.UTC()
	name := r.Name
	if name == "" { // echoes found the session, but the store has no record; feedback can use the ID as the name
		name = r.ID.String()
	}
	return &Record{
		Identity: Identity{ID: r.ID, Tenant: tenant, Agent: c.Agent, Name: name, Method: r.Method, Started: now, Seen: now},
		OptOut:   OptOut{NoLearn: c.LearnOff},
		State:    State{Dirty: true},
	}
}
