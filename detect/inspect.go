package detect

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"precept/wire"
)

// Finding is one thing that was found in a transcript, as `precept inspect --json` prints it.
type Finding struct {
	Source string `json:"source"`
	ID     string `json:"id"`
	Index  int    `json:"index"` // in the list as given, from 0
	Kind   string `json:"kind"`  // tool_result | loop | user
	Label  string `json:"label,omitempty"`

	Rule string `json:"-"` // which rule spoke, for people
	Tool string `json:"-"` // of a tool result and a loop
}

// The kinds of findings.
const (
	KindResult = "tool_result"
	KindLoop   = "loop"
	KindUser   = "user"
)

// record is one transcript. A request body is one too.
type record struct {
	Source   json.RawMessage `json:"source"`
	ID       json.RawMessage `json:"id"`
	Messages json.RawMessage `json:"messages"`
	Input    json.RawMessage `json:"input"`
}

// Transcript is a conversation that was read from a file.
type Transcript struct {
	Source, ID string
	Request    *wire.Request // its list, as the last request of the conversation
}

// Inspect reads transcripts, as Read does, and tells what it finds in them, in the order of the lists.
func Inspect(r io.Reader, emit func(Finding) error) error {
	return Read(r, func(t Transcript) error {
		return inspectList(t.Request, func(f Finding) error {
			f.Source, f.ID = t.Source, t.ID
			return emit(f)
		})
	})
}

// Read reads transcripts: JSON lines, one JSON object, an array of them or a bare list of messages. One transcript at a time
// is held in memory. A transcript that is not to be read does not stop the others; the error names all of them. An error of
// each stops at once.
func Read(r io.Reader, each func(Transcript) error) error {
	in := bufio.NewReaderSize(r, 64<<10)
	first, err := firstByte(in)
	if errors.Is(err, io.EOF) {
		return errors.New("there is nothing in it: the input is empty")
	}
	if err != nil {
		return fmt.Errorf("read transcripts: %w", err)
	}
	i := reading{each: each}
	dec := json.NewDecoder(in)
	if first == '[' {
		err = i.array(dec)
	} else {
		err = i.lines(dec)
	}
	return errors.Join(append(i.faults, err)...)
}

func firstByte(in *bufio.Reader) (byte, error) {
	if bom, err := in.Peek(3); err == nil && bytes.Equal(bom, []byte("\xef\xbb\xbf")) {
		_, _ = in.Discard(3)
	}
	for {
		b, err := in.ReadByte()
		if err != nil {
			return 0, err
		}
		if b != ' ' && b != '\t' && b != '\r' && b != '\n' {
			return b, in.UnreadByte()
		}
	}
}

type reading struct {
	each   func(Transcript) error
	n      int // transcripts read
	faults []error
}

func (i *reading) lines(dec *json.Decoder) error {
	for {
		var raw json.RawMessage
		if err := dec.Decode(&raw); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("transcript %d is not JSON: %w", i.n+1, err)
		}
		if err := i.transcript(raw); err != nil {
			return err
		}
	}
}

// array reads an array: of transcripts one by one, of messages as one transcript.
func (i *reading) array(dec *json.Decoder) error {
	if _, err := dec.Token(); err != nil {
		return fmt.Errorf("read transcripts: %w", err)
	}
	var list []json.RawMessage
	for dec.More() {
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return fmt.Errorf("element %d of the array is not JSON: %w", i.n+len(list), err)
		}
		var rec record
		if len(list) == 0 && json.Unmarshal(raw, &rec) == nil && (rec.Messages != nil || rec.Input != nil) {
			if err := i.transcript(raw); err != nil {
				return err
			}
			continue
		}
		list = append(list, raw)
	}
	if len(list) == 0 {
		return nil
	}
	body, err := json.Marshal(list)
	if err != nil {
		return fmt.Errorf("read the list of messages: %w", err)
	}
	return i.list(record{Messages: body})
}

func (i *reading) transcript(raw json.RawMessage) error {
	var rec record
	if err := json.Unmarshal(raw, &rec); err != nil {
		i.n++
		i.faults = append(i.faults, fmt.Errorf("transcript %d is no object with messages or input: %w", i.n, err))
		return nil
	}
	return i.list(rec)
}

// list hands one transcript over.
func (i *reading) list(rec record) error {
	i.n++
	req, err := rec.request()
	if err != nil {
		i.faults = append(i.faults, fmt.Errorf("transcript %d (%s): %w", i.n, name(rec.ID), err))
		return nil
	}
	return i.each(Transcript{name(rec.Source), name(rec.ID), req})
}

// name is a JSON string's content; another value stands for itself.
func name(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

// request makes a request of the list, so that it is read by the one package that knows the forms.
func (rec *record) request() (*wire.Request, error) {
	key, list := "messages", rec.Messages
	d := wire.Chat
	switch {
	case rec.Input != nil && rec.Messages == nil:
		key, list, d = "input", rec.Input, wire.Responses
	case rec.Messages == nil:
		return nil, errors.New("it has neither messages nor input")
	case typed(list, "tool_result", "tool_use"):
		d = wire.Messages
	case typed(list, "function_call", "function_call_output"):
		key, d = "input", wire.Responses
	}
	body := make([]byte, 0, len(list)+16)
	body = append(body, `{"`+key+`":`...)
	body = append(append(body, list...), '}')
	req, err := wire.Parse(d, body)
	if err != nil {
		return nil, fmt.Errorf("its list is not to be read: %w", err)
	}
	return req, nil
}

// typed: an element of the list, or of the content of one, has one of the types.
func typed(list json.RawMessage, types ...string) bool {
	var items []struct {
		Type    string          `json:"type"`
		Content json.RawMessage `json:"content"`
	}
	if json.Unmarshal(list, &items) != nil {
		return false
	}
	for _, it := range items {
		if hasAny(types, it.Type) && it.Type != "" {
			return true
		}
		var parts []struct {
			Type string `json:"type"`
		}
		if len(it.Content) == 0 || it.Content[0] != '[' || json.Unmarshal(it.Content, &parts) != nil {
			continue
		}
		for _, p := range parts {
			if p.Type != "" && hasAny(types, p.Type) {
				return true
			}
		}
	}
	return false
}

// inspectList walks one list from the start, as the proxy would have seen it grow.
func inspectList(req *wire.Request, emit func(Finding) error) error {
	warned := map[string]bool{}
	previous := ""
	for from := 0; from < req.Len(); {
		if req.Role(from) == wire.RoleAssistant {
			previous = said(req.Item(from), previous)
			from++
			continue
		}
		to := from
		for to < req.Len() && req.Role(to) != wire.RoleAssistant {
			to++
		}
		loops := new(Results).loopsIn(req, from, to, warned, nil)
		for i := from; i < to; i++ {
			if err := inspectItem(req, i, previous, loops, emit); err != nil {
				return err
			}
		}
		for _, l := range loops {
			if l.CallID != "" {
				warned[l.CallID] = true
			}
		}
		from = to
	}
	return nil
}

// said is the agent's newest text; an agent that only called tools has answered too.
func said(it *wire.Item, previous string) string {
	if it.Text != "" {
		return it.Text
	}
	if previous == "" {
		return " "
	}
	return previous
}

// inspectItem tells what is found in one item.
func inspectItem(req *wire.Request, i int, previous string, loops []Loop, emit func(Finding) error) error {
	role := req.Role(i)
	if role != wire.RoleUser && role != wire.RoleTool {
		return nil
	}
	it := req.Item(i)
	for _, r := range it.Results {
		call := callBefore(req, i, r.CallID)
		v := Classify(call.Name, call.Args, r.Text, r.IsError)
		if err := emit(Finding{Index: i, Kind: KindResult, Label: string(v.Outcome), Rule: v.Rule, Tool: call.Name}); err != nil {
			return err
		}
	}
	for _, l := range loops {
		if l.Index != i {
			continue
		}
		if err := emit(Finding{Index: i, Kind: KindLoop, Rule: l.Rule, Tool: l.Tool}); err != nil {
			return err
		}
	}
	if role != wire.RoleUser || it.Words == "" && it.Text == "" || it.Words == "" && len(it.Results) > 0 {
		return nil
	}
	turn := ReadTurn(it.Text, it.Words, previous)
	return emit(Finding{Index: i, Kind: KindUser, Label: string(turn.Feeling), Rule: turn.Rule})
}

// callBefore finds the call of a result: the nearest one before item i with that id, so that transcripts whose ids repeat
// are read right; without an id the answer's only call.
func callBefore(req *wire.Request, i int, id string) wire.Call {
	for j := i - 1; j >= 0; j-- {
		if req.Role(j) != wire.RoleAssistant {
			continue
		}
		for _, c := range req.Item(j).Calls {
			if c.ID == id {
				return c
			}
		}
		if id == "" && len(req.Item(j).Calls) == 1 {
			return req.Item(j).Calls[0]
		}
	}
	return wire.Call{}
}
