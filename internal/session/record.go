package session

import (
	"maps"
	"sync"
	"time"

	"precept/bandit/trial"
	"precept/internal/wire"
)

// Record is the state of a session or a run. Lock the record before you access a field or call a method other than
// MemberNow. Identity.ID and Identity.Tenant never change, and can be read without the lock.
type Record struct {
	sync.Mutex

	Identity   Identity
	Unit       Unit
	Thread     Thread
	Agents     Agents
	Assignment trial.Assignment // random decisions, chosen lessons (picks) and offsets; empty if the unit's record is used
	Lessons    Lessons
	Facts      Facts
	OptOut     OptOut
	Mailbox    Mailbox
	State      State
}

// Identity names a session. NewRecord and NewRun set every field. Begin updates Seen, Model and Dialect at each main
// request, a request of the conversation itself and not a side request.
type Identity struct {
	ID      ID        `json:"-"`      // key of the row, not part of the document
	Tenant  string    `json:"tenant"` // from the credential; no other tenant may read or rate the session
	Agent   string    `json:"agent"`
	Name    string    `json:"name"`   // from the client, else from precept; feedback finds the session by it
	Method  Method    `json:"method"` // sessions without a name (ByNew, ByEcho) may be confused with identical histories
	Started time.Time `json:"started"`
	// Seen is the time of the newest main request. A store keeps the row with the later Seen, so Begin never sets Seen
	// back, even if the clock is set back.
	Seen    time.Time    `json:"seen"`
	Model   string       `json:"model,omitempty"`
	Dialect wire.Dialect `json:"dialect"`
}

// Unit identifies the record with the session's coins, the random decisions to inject or withhold a lesson. A unit is a
// run, or the parent session of a sub-agent. Its sessions get the same lessons: otherwise an agent with a lesson would
// pass the lesson to an agent without the lesson.
type Unit struct {
	ID           string `json:"id,omitempty"`        // hex ID of the unit; set by proxy before the record is added; empty: the session is its own unit
	RunName      string `json:"run,omitempty"`       // set with ID
	MemberNumber int    `json:"member_no,omitempty"` // from 1; set by AddMember; MemberKey finds the session by it
	Members      int    `json:"members,omitempty"`   // number of sessions of the unit; set by AddMember, so that feedback reaches each session
	IsRun        bool   `json:"is_run,omitempty"`    // set by NewRun: a run has no conversation of its own

	Replica string `json:"-"` // this process in Thread.ReplicaCounts; set when the store keeps the record in memory
}

// Thread is the state of the conversation. Record.Begin and Record.SetLastTurn set the fields at a main request,
// Record.AddReply at the reply.
type Thread struct {
	Turns       int      `json:"turns"`                  // main turns; a retry adds none
	ListHash    uint64   `json:"list_hash,omitempty"`    // list of the newest main request; the same hash without a reply in between is a retry
	Items       int      `json:"items,omitempty"`        // length of the list
	ItemsBefore int      `json:"items_before,omitempty"` // Items of the turn before; unchanged by a retry, which reaches the same decisions
	LastTurn    LastTurn `json:"last_turn,omitzero"`
	Replied     bool     `json:"replied,omitempty"`     // the newest main request had a complete reply; the same list is then a new turn
	FirstWords  uint64   `json:"first_words,omitempty"` // hash of the user's words at the first turn; separates conversations with a shared name
	// Calls are the newest calls of replies, by id. Begin clears them if the request contains the history. For a delta
	// request (wire.Request.Delta), which contains only outputs, loops and errors are found by Calls.
	Calls         map[string]wire.Call     `json:"calls,omitempty"`
	CallOrder     []string                 `json:"call_order,omitempty"` // ids of Calls, oldest first
	Work          []Work                   `json:"work,omitempty"`       // commits, branches and pull requests in tool results; see AddWork
	Totals        trial.Totals             `json:"tally,omitzero"`       // sums of the session, or of all sessions of the unit; a pick's outcomes are differences of these sums
	Used          trial.Usage              `json:"used,omitzero"`        // tokens of main turns as the upstream reported; closing adds them to the arms' costs
	ReplicaCounts map[string]ReplicaCounts `json:"counted,omitempty"`    // for a unit of several sessions: each replica's parts of Totals and Used
}

// Agents is the state by which SideReason distinguishes a session's main requests from requests of helpers (for a
// title, for a summary, of a sub-agent), which get no lessons. Record.Begin sets the fields.
type Agents struct {
	HasTools            bool     `json:"has_tools,omitempty"`   // a request had tools
	SystemHash          uint64   `json:"system_hash,omitempty"` // of the current agent
	ToolsHash           uint64   `json:"tools_hash,omitempty"`  // of the current agent
	ToolNames           []uint32 `json:"tool_names,omitempty"`  // sorted short hashes; they recognise an agent that adds a tool
	PromptsWithoutTools []uint64 `json:"toolless,omitempty"`    // of agents without tools that continued the conversation
	PreviousPrompts     []uint64 `json:"former,omitempty"`      // of agents with tools that passed the conversation on
}

// Lessons are the matches of a session and the inserted text. Package inject sets them. Every turn replays the blocks
// byte for byte: a change would empty the provider's prompt cache and spoil the experiment.
type Lessons struct {
	Matched    []string  `json:"matched,omitempty"` // slugs in order; a lesson matches once per session
	Blocks     []Block   `json:"blocks,omitempty"`
	BlockBytes int       `json:"block_bytes,omitempty"` // bytes of inserted and withheld text: withholding a lesson must leave no room for another
	Picks      int       `json:"picks_spent,omitempty"` // picks of this session, also withheld ones; a unit's member has at most 2 * inject.k picks
	Loops      LoopState `json:"loops,omitzero"`
}

// OptOut records which parts of the session may be stored.
type OptOut struct {
	NoLearn bool  `json:"no_learn,omitempty"` // no content may be stored; set at the start
	Turns   []int `json:"turns,omitempty"`    // turns that opted out; set by SetOptedOut; no row contains their text

	ByRequest          bool  `json:"-"` // client or path opted out, not only the configuration: the store writes a mark for other replicas
	PendingTurns       []int `json:"-"` // not yet searched for an opt-out; set by AddPendingTurn; no row contains their content
	HasStorableSession bool  `json:"-"` // at least one session of the run may be stored; otherwise the run gets no row
}

// Mailbox holds answers to the agent's /lesson commands. Package proxy adds them, and package inject inserts them into
// the next turn.
type Mailbox struct {
	Answers []string `json:"answers,omitempty"` // to insert into the next turn
	Pending []string `json:"owed,omitempty"`    // requests whose replies have commands; another replica may be writing the answers, so the next turn waits briefly
	Offered bool     `json:"offered,omitempty"` // a request contained the information about /lesson commands
}

// State holds independent flags of a session.
type State struct {
	Closed         bool `json:"closed,omitempty"`   // the counters include the session; set from the row, so that a second close does not count it again
	PassThrough    bool `json:"refused,omitempty"`  // the upstream accepted a request only without insertions; set by Injector.RecordRefusal; stops all insertions
	NoDeletions    bool `json:"uncut,omitempty"`    // the upstream refused a request without sections of rules files; set by Injector.RecordRefusedCuts; stops all deletions
	Ambiguous      bool `json:"doubted,omitempty"`  // requests may belong to a different session; set by proxy; it gets lessons, but is in no report
	StartedOffline bool `json:"stand_in,omitempty"` // began while the store did not answer; set by proxy; the stored session's row replaces this one
	// Answered means that an upstream answered a main request with success. A session of failed requests is no evidence
	// about a lesson. AddReply sets the flag.
	Answered bool `json:"answered,omitempty"`

	OverLimit bool `json:"beyond,omitempty"` // a request exceeded limits.inspect_bytes or limits.items; set by proxy, which logs the first one

	// LastPlaceholder maps kinds of redacted values to the highest placeholder number in stored exchanges. Numbering
	// continues there after a restart and at another replica.
	LastPlaceholder map[string]int `json:"placeholders,omitempty"`

	Dirty bool `json:"-"` // changed since last written to a row
}

// Block is inserted text. Every turn replays the block byte for byte while the request contains the anchor.
type Block struct {
	Anchor         wire.Anchor `json:"anchor"`
	Text           string      `json:"text"`
	Turn           int         `json:"turn"` // of the insertion; if it opted out, no row contains the block
	Slugs          []string    `json:"slugs,omitempty"`
	Loop           bool        `json:"loop,omitempty"`
	KeptByProvider bool        `json:"once,omitempty"`  // inserted in a request without history, which the provider adds: a second insertion would repeat the text
	AnchorRemoved  bool        `json:"gone,omitempty"`  // compaction removed the anchor
	Superseded     bool        `json:"moved,omitempty"` // the anchor is gone, and a later block repeats the lessons
	Supersedes     bool        `json:"again,omitempty"` // repeats the lessons of a block whose anchor is gone
}

// LastTurn is the new content of the newest main request, and hashes of its reply. A block is inserted only before
// content that is new in the request.
type LastTurn struct {
	FirstNew      int      `json:"from"`               // first new item
	Items         []uint64 `json:"items,omitempty"`    // hashes of the new items
	AnsweredCalls []uint64 `json:"answered,omitempty"` // hashes of the answered calls' ids
	Reply         []uint64 `json:"reply,omitempty"`    // hashes that recognise the reply in a request; set by AddReply
}

// LoopState is the memory of the loop detector. Package inject sets the fields.
type LoopState struct {
	WarnedCalls map[string]bool `json:"warned,omitempty"` // ids of calls with a warning, given or withheld; at most one each
	Count       int             `json:"count,omitempty"`  // loops found
	DeltaState  []byte          `json:"delta,omitempty"`  // state of the detector for delta requests, which lack the history
}

// Snapshot returns a copy of identity, unit, turns, tokens and assignment. The session is closed from this copy, while
// requests may change the record.
func (r *Record) Snapshot() *Record {
	t := &r.Thread
	return &Record{
		Identity: r.Identity, Unit: r.Unit, Thread: Thread{Turns: t.Turns, Used: t.Used, Totals: t.Totals, ReplicaCounts: maps.Clone(t.ReplicaCounts)},
		Assignment: r.Assignment.Clone(), State: r.State,
	}
}

// NewRecord returns the record of a new session.
func NewRecord(tenant string, c Claim, r Resolved, now time.Time) *Record {
	now = now.UTC()
	name := r.Name
	if name == "" { // the record is lost, and echoes found the session; feedback can name the ID
		name = r.ID.String()
	}
	return &Record{
		Identity: Identity{ID: r.ID, Tenant: tenant, Agent: c.Agent, Name: name, Method: r.Method, Started: now, Seen: now},
		OptOut:   OptOut{NoLearn: c.LearnOff},
		State:    State{Dirty: true},
	}
}
