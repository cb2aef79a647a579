package session

import (
	"encoding/json"
	"fmt"
	"slices"

	"precept/internal/wire"
)

// Encode is the record as stored. Lock the record.
func (r *Record) Encode() ([]byte, error) { return r.encode(r) }

func (r *Record) encode(v any) ([]byte, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("session: encode record of %s: %w", r.ID, err)
	}
	return data, nil
}

// Decode reads a stored record. Fields of a newer version are ignored.
func Decode(id ID, data []byte) (*Record, error) {
	r := &Record{}
	if err := json.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("session: decode record of %s (written by another version, or damaged; it is treated as unknown): %w", id, err)
	}
	r.ID, r.Kept = id, r.IsRun
	return r, nil
}

// storedRecord is a record on its way to a row. Fields of the same name hide the record's own.
type storedRecord struct {
	*Record
	Name       string               `json:"name"`
	RunName    string               `json:"rn,omitempty"`
	FirstWords uint64               `json:"fw,omitempty"`
	ListHash   uint64               `json:"list,omitempty"`
	LastTurn   LastTurn             `json:"tail,omitzero"`
	Blocks     []Block              `json:"blocks,omitempty"`
	Loops      LoopState            `json:"loops,omitzero"`
	Calls      map[string]wire.Call `json:"calls,omitempty"`
	CallOrder  []string             `json:"co,omitempty"`
}

// Row is the record as the stores keep it: clean takes out of the client's own texts what must not
// reach a disk, and says which of the remembered calls may not reach it at all. Lock the record.
func (r *Record) Row(clean func(text string) (kept string, ok bool)) (Row, error) {
	stored := storedRecord{Record: r, FirstWords: r.FirstWords, ListHash: r.ListHash, LastTurn: r.LastTurn, Blocks: r.Blocks, Loops: r.Loops}
	stored.Name, _ = clean(r.Name)
	stored.RunName, _ = clean(r.RunName)
	for _, id := range r.CallOrder {
		c := r.Calls[id]
		args, ok := clean(c.Args)
		if !ok {
			continue
		}
		if stored.Calls == nil {
			stored.Calls = make(map[string]wire.Call, len(r.Calls))
		}
		c.Args = args
		stored.Calls[id] = c
		stored.CallOrder = append(stored.CallOrder, id)
	}
	r.leaveOut(&stored)
	data, err := r.encode(stored)
	if err != nil {
		return Row{}, err
	}
	return Row{Tenant: r.Tenant, ID: r.ID, Started: r.Started, Seen: r.Seen, Closed: r.Closed, StandIn: r.StandIn, Unit: r.Shared(), Data: data}, nil
}

// leaveOut takes out of a row what follows from turns that are hidden: hashes of what was said,
// text whose place in the conversation is a hash, calls and results. What stays are numbers, and
// what was drawn.
func (r *Record) leaveOut(row *storedRecord) {
	if r.Hidden(r.Turns) {
		row.LastTurn = LastTurn{}
	}
	if r.Hidden(r.Turns) || len(r.OptedOut) > 0 {
		row.ListHash, row.Loops, row.Calls, row.CallOrder = 0, LoopState{}, nil, nil
	}
	if r.Hidden(1) {
		row.FirstWords = 0
	}
	if len(r.OptedOut)+len(r.Unjudged) > 0 {
		row.Blocks = slices.DeleteFunc(slices.Clone(row.Blocks), func(b Block) bool { return r.Hidden(b.Turn) })
	}
}
