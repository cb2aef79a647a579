package session

import (
	"encoding/json"
	"fmt"
	"slices"

	"precept/bandit/trial"
	"precept/internal/wire"
)

// documentVersion is the version that Encode writes. It must change if a field's meaning changes, but not for a new
// field, which older programs ignore.
const documentVersion = 2

// document is a record as JSON. Unit is always written, because a program that knows only version 1 expects a string
// there, and therefore fails to decode the record. Without "unit", such a program would replace the record with an
// empty one.
type document struct {
	Version    int              `json:"version"`
	Identity   Identity         `json:"identity"`
	Unit       Unit             `json:"unit"`
	Thread     Thread           `json:"thread"`
	Agents     Agents           `json:"agents,omitzero"`
	Assignment trial.Assignment `json:"assignment"`
	Lessons    Lessons          `json:"lessons,omitzero"`
	Facts      Facts            `json:"facts,omitzero"`
	OptOut     OptOut           `json:"opt_out,omitzero"`
	Mailbox    Mailbox          `json:"mailbox,omitzero"`
	State      State            `json:"state,omitzero"`
}

func (r *Record) document() document {
	return document{
		documentVersion, r.Identity, r.Unit, r.Thread, r.Agents, r.Assignment, r.Lessons, r.Facts, r.OptOut, r.Mailbox, r.State,
	}
}

func (d *document) record() *Record {
	return &Record{
		Identity: d.Identity, Unit: d.Unit, Thread: d.Thread, Agents: d.Agents, Assignment: d.Assignment,
		Lessons: d.Lessons, Facts: d.Facts, OptOut: d.OptOut, Mailbox: d.Mailbox, State: d.State,
	}
}

func (d *document) encode() ([]byte, error) {
	data, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("session: encode record %s: %w", d.Identity.ID, err)
	}
	return data, nil
}

// Encode returns the record as JSON.
func (r *Record) Encode() ([]byte, error) {
	d := r.document()
	return d.encode()
}

// Decode reads a stored record. Unknown fields are ignored.
func Decode(id ID, data []byte) (*Record, error) {
	fail := func(err error) (*Record, error) {
		return nil, fmt.Errorf("session: decode record %s (written by another version, or damaged; the session is treated as unknown): %w", id, err)
	}
	var d document
	err := json.Unmarshal(data, &d) // sets d.Version even if another field has the wrong type
	switch {
	case d.Version > documentVersion:
		return fail(fmt.Errorf("version %d is newer than %d", d.Version, documentVersion))
	case d.Version < documentVersion:
		d, err = decodeVersion1(data)
	}
	if err != nil {
		return fail(err)
	}
	r := d.record()
	r.Identity.ID, r.OptOut.HasStorableSession = id, r.Unit.IsRun
	return r, nil
}

// Row returns the record's row for a store. clean removes secrets and personal data from the client's texts. Row omits
// a call if clean returns false for the arguments.
func (r *Record) Row(clean func(text string) (kept string, ok bool)) (Row, error) {
	d := r.document()
	d.Identity.Name, _ = clean(r.Identity.Name)
	d.Unit.RunName, _ = clean(r.Unit.RunName)
	d.Facts.Task, _ = clean(r.Facts.Task)
	d.Thread.Calls, d.Thread.CallOrder = nil, nil
	for _, id := range r.Thread.CallOrder {
		c := r.Thread.Calls[id]
		if kept, ok := clean(id); !ok || kept != id {
			continue // a call with a redacted id could not be found
		}
		args, ok := clean(c.Args)
		if !ok {
			continue
		}
		if d.Thread.Calls == nil {
			d.Thread.Calls = make(map[string]wire.Call, len(r.Thread.Calls))
		}
		c.Args = args
		c.Name, _ = clean(c.Name)
		d.Thread.Calls[id] = c
		d.Thread.CallOrder = append(d.Thread.CallOrder, id)
	}
	r.removeHidden(&d)
	data, err := d.encode()
	if err != nil {
		return Row{}, err
	}
	identity := &r.Identity
	return Row{Tenant: identity.Tenant, ID: identity.ID, Started: identity.Started, Seen: identity.Seen, Closed: r.State.Closed, StartedOffline: r.State.StartedOffline, IsUnit: r.IsShared(), Data: data}, nil
}

// removeHidden removes data derived from the text in hidden turns (see IsHidden): hashes, blocks anchored by a hash,
// and calls. Numbers and random assignments remain.
func (r *Record) removeHidden(d *document) {
	if r.IsHidden(r.Thread.Turns) {
		d.Thread.LastTurn = LastTurn{}
	}
	if r.IsHidden(r.Thread.Turns) || len(r.OptOut.Turns) > 0 {
		d.Thread.ListHash, d.Lessons.Loops, d.Thread.Calls, d.Thread.CallOrder = 0, LoopState{}, nil, nil
	}
	if r.IsHidden(1) {
		d.Thread.FirstWords, d.Facts.Task = 0, ""
	}
	if len(r.OptOut.Turns)+len(r.OptOut.PendingTurns) > 0 {
		d.Lessons.Blocks = slices.DeleteFunc(slices.Clone(d.Lessons.Blocks), func(b Block) bool { return r.IsHidden(b.Turn) })
		d.Thread.Work = slices.DeleteFunc(slices.Clone(d.Thread.Work), func(w Work) bool { return r.IsHidden(w.Turn) })
	}
}
