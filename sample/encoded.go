package sample

import (
	"encoding/json"
)

// Encoded is an exchange in the form in which it is kept.
type Encoded struct {
	Data  []byte // JSON of everything but New
	Items []byte // a JSON array of New, byte for byte; nil of none
}

// Encode makes the stored form, or gives back the one that Seal has made.
func (e *Exchange) Encode() Encoded {
	if e.sealed != nil {
		return *e.sealed
	}
	head := *e
	head.New = nil
	size := 768 + len(e.Reply.Text)
	for i := range e.Reply.Calls {
		size += len(e.Reply.Calls[i].Args) + 96
	}
	return Encoded{Data: head.AppendJSON(make([]byte, 0, size)), Items: joinItems(e.New)}
}

// Seal encodes the exchange once, for the spool and for the store behind it. It must not be changed
// any more.
func (e *Exchange) Seal() Encoded {
	if e.sealed == nil {
		enc := e.Encode()
		e.sealed = &enc
	}
	return *e.sealed
}

// Decode undoes Encode. Items that are no JSON come back as one string with all of them in it: a
// document that does not parse shall not stand in the way of the others.
func (enc Encoded) Decode() (Exchange, error) {
	e, err := decodeExchange(enc.Data)
	if err != nil {
		return e, err
	}
	e.New = splitItems(enc.Items)
	return e, nil
}

func joinItems(items []json.RawMessage) []byte {
	if items == nil {
		return nil
	}
	size := 2
	for _, it := range items {
		size += len(it) + 1
	}
	b := append(make([]byte, 0, size), '[')
	for i, it := range items {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, it...)
	}
	return append(b, ']')
}

func splitItems(b []byte) []json.RawMessage {
	if b == nil {
		return nil
	}
	var items []json.RawMessage
	if err := json.Unmarshal(b, &items); err != nil {
		text, _ := json.Marshal(string(b)) // a string always encodes
		return []json.RawMessage{text}
	}
	return items
}
