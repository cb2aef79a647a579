package session

import (
	"encoding/json"
	"time"

	"precept/bandit/trial"
	"precept/internal/wire"
)

// version1 is a record as JSON up to November 2026: one flat object without a version.
type version1 struct {
	Tenant         string               `json:"tenant"`
	Agent          string               `json:"agent"`
	Name           string               `json:"name"`
	Method         Method               `json:"method"`
	Started        time.Time            `json:"started"`
	Seen           time.Time            `json:"seen"`
	Model          string               `json:"model"`
	Dialect        wire.Dialect         `json:"dialect"`
	Turns          int                  `json:"turns"`
	ListHash       uint64               `json:"list"`
	Items          int                  `json:"items"`
	ItemsBefore    int                  `json:"from"`
	LastTurn       lastTurn1            `json:"tail"`
	Replied        bool                 `json:"replied"`
	HasTools       bool                 `json:"tools"`
	SystemHash     uint64               `json:"sys"`
	ToolsHash      uint64               `json:"th"`
	ToolNames      []uint32             `json:"tn"`
	ToollessAgents []uint64             `json:"hd"`
	FormerAgents   []uint64             `json:"ld"`
	Assignment     trial.Assignment     `json:"asg"`
	Matched        []string             `json:"matched"`
	Used           trial.Usage          `json:"used"`
	Blocks         []block1             `json:"blocks"`
	BlockBytes     int                  `json:"bb"`
	Loops          loopState1           `json:"loops"`
	Calls          map[string]wire.Call `json:"calls"`
	CallOrder      []string             `json:"co"`
	NoLearn        bool                 `json:"nolearn"`
	Refused        bool                 `json:"refused"`
	Closed         bool                 `json:"closed"`
	Doubted        bool                 `json:"db"`
	OptedOut       []int                `json:"oo"`
	Answers        []string             `json:"wa"`
	Owed           []string             `json:"wo"`
	WritOffered    bool                 `json:"wt"`
	StandIn        bool                 `json:"si"`
	Unit           string               `json:"unit"`
	RunName        string               `json:"rn"`
	MemberNo       int                  `json:"seat"`
	Members        int                  `json:"mem"`
	IsRun          bool                 `json:"isrun"`
	Spent          int                  `json:"sp"`
	FirstWords     uint64               `json:"fw"`
}

// The types of version 1 have the fields of today's types in the same order.
type (
	block1 struct {
		Anchor wire.Anchor `json:"a"`
		Text   string      `json:"t"`
		Turn   int         `json:"n"`
		Slugs  []string    `json:"s"`
		Loop   bool        `json:"l"`
		Once   bool        `json:"o"`
		Gone   bool        `json:"g"`
		Moved  bool        `json:"m"`
		Again  bool        `json:"r"`
	}
	lastTurn1 struct {
		From     int      `json:"f"`
		Items    []uint64 `json:"k"`
		Answered []uint64 `json:"c"`
		Reply    []uint64 `json:"r"`
	}
	loopState1 struct {
		Warned map[string]bool `json:"w"`
		Count  int             `json:"n"`
		Delta  []byte          `json:"d"`
	}
)

// decodeVersion1 reads a record that a program up to November 2026 stored.
func decodeVersion1(data []byte) (document, error) {
	var v version1
	if err := json.Unmarshal(data, &v); err != nil {
		return document{}, err
	}
	var blocks []Block
	for _, b := range v.Blocks {
		blocks = append(blocks, Block(b))
	}
	return document{
		Identity: Identity{
			Tenant: v.Tenant, Agent: v.Agent, Name: v.Name, Method: v.Method, Started: v.Started, Seen: v.Seen, Model: v.Model, Dialect: v.Dialect,
		},
		Unit: Unit{ID: v.Unit, RunName: v.RunName, MemberNo: v.MemberNo, Members: v.Members, IsRun: v.IsRun},
		Thread: Thread{
			Turns: v.Turns, ListHash: v.ListHash, Items: v.Items, ItemsBefore: v.ItemsBefore, LastTurn: LastTurn(v.LastTurn),
			Replied: v.Replied, FirstWords: v.FirstWords, Calls: v.Calls, CallOrder: v.CallOrder, Used: v.Used,
		},
		Agents: Agents{
			HasTools: v.HasTools, SystemHash: v.SystemHash, ToolsHash: v.ToolsHash, ToolNames: v.ToolNames,
			Toolless: v.ToollessAgents, Former: v.FormerAgents,
		},
		Assignment: v.Assignment,
		Lessons:    Lessons{Matched: v.Matched, Blocks: blocks, BlockBytes: v.BlockBytes, Spent: v.Spent, Loops: LoopState(v.Loops)},
		OptOut:     OptOut{NoLearn: v.NoLearn, Turns: v.OptedOut},
		Mailbox:    Mailbox{Answers: v.Answers, Owed: v.Owed, Offered: v.WritOffered},
		State:      State{Closed: v.Closed, Refused: v.Refused, Doubted: v.Doubted, StandIn: v.StandIn},
	}, nil
}
