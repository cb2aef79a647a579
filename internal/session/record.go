package session

import (
	"sync"
	"time"

	"precept/bandit/trial"
	"precept/internal/wire"
)

// Block is text that was inserted, with its anchor; replayed byte for byte while the anchor stands.
type Block struct {
	Anchor wire.Anchor `json:"a"`
	Text   string      `json:"t"`
	Turn   int         `json:"n"`
	Slugs  []string    `json:"s,omitempty"`
	Loop   bool        `json:"l,omitempty"`
	Once   bool        `json:"o,omitempty"` // delta wire: inserted once, never again
	Gone   bool        `json:"g,omitempty"` // its anchor was compacted away
	Moved  bool        `json:"m,omitempty"` // and its lessons were inserted anew elsewhere
	Again  bool        `json:"r,omitempty"` // this is such an insertion anew
}

// Record is what precept remembers of a session. Lock it before reading or writing anything but ID.
type Record struct {
	sync.Mutex `json:"-"`

	ID      ID           `json:"-"`
	Tenant  string       `json:"tenant"`
	Agent   string       `json:"agent"`
	Name    string       `json:"name"` // the client's own name where one was given, else ours
	Method  Method       `json:"method"`
	Started time.Time    `json:"started"`
	Seen    time.Time    `json:"seen"`
	Model   string       `json:"model,omitempty"`
	Dialect wire.Dialect `json:"dialect"`

	Turns          int      `json:"turns"`           // main turns with a distinct list
	ListHash       uint64   `json:"list,omitempty"`  // of the newest main request
	Items          int      `json:"items,omitempty"` // its number of items
	ItemsBefore    int      `json:"from,omitempty"`  // how many of them the turn before it had: the same on a retry
	LastTurn       LastTurn `json:"tail,omitzero"`
	Replied        bool     `json:"replied,omitempty"` // a completed reply to it went by
	HasTools       bool     `json:"tools,omitempty"`   // the session has had a tool-carrying request
	SystemHash     uint64   `json:"sys,omitempty"`     // of the first tool-carrying request
	ToolsHash      uint64   `json:"th,omitempty"`
	ToolNames      []uint32 `json:"tn,omitempty"` // short hashes of the names, sorted
	ToollessAgents []uint64 `json:"hd,omitempty"` // system texts of agents without tools that have taken the conversation over
	FormerAgents   []uint64 `json:"ld,omitempty"` // system texts of agents with tools that have handed it over

	Assignment  trial.Assignment     `json:"asg"`
	Matched     []string             `json:"matched,omitempty"` // slugs ever matched, in order
	Used        trial.Usage          `json:"used,omitzero"`     // what the upstream reported of the main turns
	Blocks      []Block              `json:"blocks,omitempty"`
	BlockBytes  int                  `json:"bb,omitempty"` // inserted plus withheld, of the 4 KiB
	Loops       LoopState            `json:"loops,omitzero"`
	Calls       map[string]wire.Call `json:"calls,omitempty"` // calls seen in replies, by id (bounded): for delta wires
	CallOrder   []string             `json:"co,omitempty"`    // their ids, oldest first
	NoLearn     bool                 `json:"nolearn,omitempty"`
	Refused     bool                 `json:"refused,omitempty"` // the upstream takes this session's requests only unchanged
	Closed      bool                 `json:"closed,omitempty"`
	Doubted     bool                 `json:"db,omitempty"` // its requests may be another session's: lessons go on, and nothing of it counts
	OptedOut    []int                `json:"oo,omitempty"` // turns of which nothing may be kept
	Answers     []string             `json:"wa,omitempty"` // to the agent's /lesson commands, which wait for its next turn
	Owed        []string             `json:"wo,omitempty"` // requests whose reply's commands are answered through the store that replicas share
	WritOffered bool                 `json:"wt,omitempty"` // the agent has read that there are such commands
	StandIn     bool                 `json:"si,omitempty"` // made while the store could not be asked whether there is one

	// A session may draw through another record, its unit: a run's, or that of the named session
	// whose sub-agent it is. Its own Assignment then stays empty, and counts nothing.
	Unit       string `json:"unit,omitempty"` // the unit's ID, as text
	RunName    string `json:"rn,omitempty"`   // the unit's name
	MemberNo   int    `json:"seat,omitempty"` // its number among the unit's members, from 1
	Members    int    `json:"mem,omitempty"`  // of a unit: how many sessions draw through it
	IsRun      bool   `json:"isrun,omitempty"`
	Spent      int    `json:"sp,omitempty"` // picks that this session has had, withheld ones among them
	FirstWords uint64 `json:"fw,omitempty"` // what the conversation is about: a hash of its first words

	Asked    bool  `json:"-"` // somebody asked that nothing of it be kept: the client, or a path; not the configuration alone
	Unjudged []int `json:"-"` // turns of which it is not known yet
	Kept     bool  `json:"-"` // of a run: something that was said in it may be kept

	Dirty bool `json:"-"` // changed since it was last handed to the store
}

// LastTurn is what the newest main request brought, and what its reply is known by. What was sent
// once without a block never gets one later, also when it is sent again with more behind it.
type LastTurn struct {
	From     int      `json:"f"`           // the first item that was new
	Items    []uint64 `json:"k,omitempty"` // hashes of the new items
	Answered []uint64 `json:"c,omitempty"` // hashes of the ids of the calls that they answer
	Reply    []uint64 `json:"r,omitempty"` // hashes of what the reply echoes as, when it comes back
}

// LoopState is what the loop detector carries from turn to turn where the history is not in the
// request, and which results were warned of.
type LoopState struct {
	Warned map[string]bool `json:"w,omitempty"` // tool_call_id of the result that was warned (or would have been, withheld)
	Count  int             `json:"n,omitempty"`
	Delta  []byte          `json:"d,omitempty"` // the detector's own state on delta wires
}

// NewRecord begins the memory of a session.
func NewRecord(tenant string, c Claim, r Resolved, now time.Time) *Record {
	now = now.UTC()
	name := r.Name
	if name == "" { // found by echo, and the record is lost: feedback can still name the ID
		name = r.ID.String()
	}
	return &Record{
		ID: r.ID, Tenant: tenant, Agent: c.Agent, Name: name, Method: r.Method,
		Started: now, Seen: now, NoLearn: c.LearnOff, Dirty: true,
	}
}
