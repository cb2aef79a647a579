package session

import (
	"maps"
	"sync"
	"time"

	"precept/bandit/trial"
	"precept/internal/wire"
)

// Record is the state of a session or of a run. Lock the record before you read or write a field.
// Identity.ID and Identity.Tenant never change, and need no lock.
type Record struct {
	sync.Mutex

	Identity   Identity
	Unit       Unit
	Thread     Thread
	Agents     Agents
	Assignment trial.Assignment // random decisions, chosen lessons (picks) and offsets; empty if the session uses the record of its unit
	Lessons    Lessons
	Facts      Facts
	OptOut     OptOut
	Mailbox    Mailbox
	State      State
}

// Identity names a session. NewRecord and NewRun set every field. Begin updates Seen, Model and Dialect
// at each main request: a request of the conversation itself, not a side request.
type Identity struct {
	ID      ID        `json:"-"`      // key of the row; the row carries the ID, so the document does not
	Tenant  string    `json:"tenant"` // from the credential; no other tenant may read or rate the session
	Agent   string    `json:"agent"`
	Name    string    `json:"name"`   // the client's own name, else a name of precept; feedback finds the session by the name
	Method  Method    `json:"method"` // the rule that identified the session; sessions without a name (ByNew, ByEcho) may be confused with sessions with an identical history
	Started time.Time `json:"started"`
	// Seen is the time of the newest main request. Of two rows of a session a store keeps the row
	// with the later Seen, so Begin never sets Seen back when the clock is set back.
	Seen    time.Time    `json:"seen"`
	Model   string       `json:"model,omitempty"`
	Dialect wire.Dialect `json:"dialect"`
}

// Unit identifies the record that holds the coins of a session: the random decisions to inject or to withhold a
// lesson. A unit is a run, or the parent session of a sub-agent. All sessions of a unit get the same lessons,
// because otherwise an agent with a lesson would pass the lesson to an agent of the run without the lesson.
type Unit struct {
	ID           string `json:"id,omitempty"`        // hex ID of the unit; set by proxy before the record is added; empty: the session is its own unit
	RunName      string `json:"run,omitempty"`       // name of the unit; set with ID
	MemberNumber int    `json:"member_no,omitempty"` // number of the session in its unit, from 1; set by AddMember; MemberKey finds the session by the number
	Members      int    `json:"members,omitempty"`   // for a unit: number of its sessions; set by AddMember, so that feedback reaches each session
	IsRun        bool   `json:"is_run,omitempty"`    // set by NewRun: the record is a run, which has no conversation of its own

	Replica string `json:"-"` // name of this process in Thread.ReplicaCounts; set when the store keeps the record in memory
}

// Thread is the state of the conversation. Record.Begin and Record.SetLastTurn set the fields at a main
// request, Record.AddReply at the reply.
type Thread struct {
	Turns       int      `json:"turns"`                  // main turns; a retry adds none
	ListHash    uint64   `json:"list_hash,omitempty"`    // list of the newest main request; the same hash without a reply in between is a retry
	Items       int      `json:"items,omitempty"`        // number of items of the list
	ItemsBefore int      `json:"items_before,omitempty"` // Items of the turn before; a retry leaves the field unchanged and reaches the same decisions
	LastTurn    LastTurn `json:"last_turn,omitzero"`     // new content of the list, and the traces of its reply
	Replied     bool     `json:"replied,omitempty"`      // the newest main request had a complete reply; a request with the same list is then a new turn
	FirstWords  uint64   `json:"first_words,omitempty"`  // hash of the first words of the user; set at the first turn; separates conversations with a shared name
	// Calls are the newest calls of replies, by id. Begin clears Calls if the request contains the
	// history. A delta request (wire.Request.Delta) contains only the outputs of the calls: without
	// Calls, precept could not find loops and errors.
	Calls         map[string]wire.Call     `json:"calls,omitempty"`
	CallOrder     []string                 `json:"call_order,omitempty"` // ids of Calls, oldest first; AddReply drops the oldest beyond the bound
	Work          []Work                   `json:"work,omitempty"`       // commits, branches and pull requests that tool results showed; AddWork adds them
	Totals        trial.Totals             `json:"tally,omitzero"`       // sums of the session, for a unit of all its sessions; the outcomes of a pick are differences of these sums
	Used          trial.Usage              `json:"used,omitzero"`        // tokens of main turns as the upstream reported; closing adds the tokens to the costs of the arms
	ReplicaCounts map[string]ReplicaCounts `json:"counted,omitempty"`    // for a unit of several sessions: the parts of Tally and Used that each replica counted
}

// Agents is the state by which SideReason distinguishes the main requests of a session from the requests of helpers (a
// title, a summary, a sub-agent) with the same session name. Record.Begin sets the fields. A helper's
// request gets no lessons.
type Agents struct {
	HasTools            bool     `json:"has_tools,omitempty"`   // a request had tools
	SystemHash          uint64   `json:"system_hash,omitempty"` // system prompt of the current agent
	ToolsHash           uint64   `json:"tools_hash,omitempty"`  // tool names of the current agent
	ToolNames           []uint32 `json:"tool_names,omitempty"`  // short hashes of the names, sorted; they recognise an agent that adds a tool
	PromptsWithoutTools []uint64 `json:"toolless,omitempty"`    // system prompts of agents without tools that continued the conversation
	PreviousPrompts     []uint64 `json:"former,omitempty"`      // system prompts of agents with tools that passed the conversation to another agent
}

// Lessons are the matches of a session and the inserted text. Package inject sets the fields. Every turn
// replays the blocks byte for byte; a changed block would empty the prompt cache of the provider
// and spoil the experiment.
type Lessons struct {
	Matched    []string  `json:"matched,omitempty"`     // slugs that matched, in order; a lesson matches once per session
	Blocks     []Block   `json:"blocks,omitempty"`      // inserted text
	BlockBytes int       `json:"block_bytes,omitempty"` // inserted and withheld bytes; withheld bytes count, so that withholding a lesson leaves no room for another lesson
	Picks      int       `json:"picks_spent,omitempty"` // picks of this session, with the withheld picks; each member of a unit has at most 2 * inject.k picks
	Loops      LoopState `json:"loops,omitzero"`
}

// OptOut records which parts of the session may be stored.
type OptOut struct {
	NoLearn bool  `json:"no_learn,omitempty"` // no content of the session may be stored; set at its start
	Turns   []int `json:"turns,omitempty"`    // turns that opted out; set by Record.SetOptedOut; the text of such a turn is never part of a row

	ByRequest          bool  `json:"-"` // the client or a path opted out, so the store writes a mark for other replicas; false if only the configuration opted out
	PendingTurns       []int `json:"-"` // turns in which the recorder has not looked for an opt-out yet; set by Record.AddPendingTurn; a row contains none of their content
	HasStorableSession bool  `json:"-"` // for a run: at least one session of the run may be stored; otherwise the run gets no row
}

// Mailbox holds the answers to /lesson commands of the agent. Package proxy adds the answers, and package
// inject inserts the answers into the next turn.
type Mailbox struct {
	Answers []string `json:"answers,omitempty"` // answers to insert into the next turn
	Pending []string `json:"owed,omitempty"`    // ids of requests whose replies have commands; another replica may be writing the answers, so the next turn waits briefly
	Offered bool     `json:"offered,omitempty"` // a request contained the information about /lesson commands
}

// State holds the flags of a session. The flags are independent of each other.
type State struct {
	Closed         bool `json:"closed,omitempty"`   // the counters include the session; set from the row, so that a second close does not count the session again
	PassThrough    bool `json:"refused,omitempty"`  // the upstream refused a request with insertions and accepted the unchanged request; set by Injector.RecordRefusal; stops all insertions
	NoDeletions    bool `json:"uncut,omitempty"`    // the upstream refused a request from which precept had deleted sections of rules files; set by Injector.RecordRefusedCuts; stops all deletions
	Ambiguous      bool `json:"doubted,omitempty"`  // the requests may belong to another session; set by proxy; the session gets lessons, and no report counts the session
	StartedOffline bool `json:"stand_in,omitempty"` // the session began while the store did not answer; set by proxy; the row of the stored session replaces this row
	// Answered is set by AddReply: an upstream answered a main request with success. A session with
	// failed requests only is not evidence about a lesson.
	Answered bool `json:"answered,omitempty"`

	OverLimit bool `json:"beyond,omitempty"` // a request exceeded limits.inspect_bytes or limits.items; set by proxy, which logs the first such request

	// LastPlaceholder maps each kind of redacted value to the highest number of its placeholders in stored exchanges.
	// Numbering continues from there after a restart and at another replica.
	LastPlaceholder map[string]int `json:"placeholders,omitempty"`

	Dirty bool `json:"-"` // changed since the record was last written to a row
}

// Block is inserted text with its anchor. Every turn replays the block byte for byte while the
// request contains the anchor.
type Block struct {
	Anchor         wire.Anchor `json:"anchor"`
	Text           string      `json:"text"`
	Turn           int         `json:"turn"` // turn of the insertion; if the turn opted out, no row contains the block
	Slugs          []string    `json:"slugs,omitempty"`
	Loop           bool        `json:"loop,omitempty"`  // a loop warning
	KeptByProvider bool        `json:"once,omitempty"`  // inserted in a request without history, which the provider adds: a second insertion would repeat the text
	AnchorRemoved  bool        `json:"gone,omitempty"`  // compaction removed the anchor
	Superseded     bool        `json:"moved,omitempty"` // a later block repeats the lessons of this block, which is gone
	Supersedes     bool        `json:"again,omitempty"` // this block repeats the lessons of a block that is gone
}

// LastTurn is the new content of the newest main request, and hashes of its reply. SetLastTurn sets the
// fields of the request. A block is inserted only before new content: an item that got no block in its
// first turn never gets a block in a later turn.
type LastTurn struct {
	FirstNew      int      `json:"from"`               // index of the first new item
	Items         []uint64 `json:"items,omitempty"`    // hashes of the new items
	AnsweredCalls []uint64 `json:"answered,omitempty"` // hashes of the ids of the calls that the items answer
	Reply         []uint64 `json:"reply,omitempty"`    // hashes by which the reply is recognised when a request sends the reply back; set by AddReply
}

// LoopState is the memory of the loop detector. Package inject sets the fields.
type LoopState struct {
	WarnedCalls map[string]bool `json:"warned,omitempty"` // ids of calls with a warning, given or withheld; a call gets at most one
	Count       int             `json:"count,omitempty"`  // loops found
	DeltaState  []byte          `json:"delta,omitempty"`  // state of the detector for delta requests, which do not contain the history
}

// Snapshot returns a copy of the numbers of a session: identity, unit, turns, tokens and assignment, without texts,
// blocks and calls. The session is closed from this copy, while requests may change the record. The caller locks the
// record.
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
	if name == "" { // the session was found by content that the agent sent back, but its record is lost; feedback can name the ID
		name = r.ID.String()
	}
	return &Record{
		Identity: Identity{ID: r.ID, Tenant: tenant, Agent: c.Agent, Name: name, Method: r.Method, Started: now, Seen: now},
		OptOut:   OptOut{NoLearn: c.LearnOff},
		State:    State{Dirty: true},
	}
}
