package sample

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"

	"precept/internal/wire"
)

// Encoded is an exchange's stored form.
type Encoded struct {
	Data  []byte // JSON without New, System and Tools
	Items []byte // New as a JSON array, beginning with [System, Tools] if there is a prompt; nil if New is nil
}

// Encode returns the stored form. After Seal, Encode returns the form that Seal made.
func (e *Exchange) Encode() Encoded {
	if e.sealed != nil {
		return *e.sealed
	}
	head := *e
	head.New = []json.RawMessage{}
	items := e.New
	if head.HasPrompt = len(e.System)+len(e.Tools) > 0; head.HasPrompt {
		items = append([]json.RawMessage{joinItems([]json.RawMessage{nullIfEmpty(e.System), nullIfEmpty(e.Tools)})}, items...)
	}
	head.LatencyMS, head.FirstByteMS = finite(e.LatencyMS), finite(e.FirstByteMS)
	var data bytes.Buffer // the encoder writes once, so the buffer gets the right size
	enc := json.NewEncoder(&data)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(&head); err != nil {
		panic(fmt.Sprintf("encoding exchange %s: %v", e.ID, err)) // package store recovers, and loses only this exchange
	}
	return Encoded{Data: bytes.TrimRight(data.Bytes(), "\n"), Items: joinItems(items)}
}

// finite returns 0 for a value that JSON cannot represent.
func finite(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return v
}

// Seal encodes the exchange once for both the durable queue and the store. The exchange must not change afterwards.
func (e *Exchange) Seal() Encoded {
	if e.sealed == nil {
		enc := e.Encode()
		e.sealed = &enc
	}
	return *e.sealed
}

// Sealed returns the result of an earlier Seal call.
func (e *Exchange) Sealed() (enc Encoded, ok bool) {
	if e.sealed == nil {
		return Encoded{}, false
	}
	return *e.sealed, true
}

// Decode returns the exchange. The items share memory with enc.Items. If enc.Items is not a JSON array, it becomes one
// string item, so that an unreadable document does not block the others.
func (enc Encoded) Decode() (Exchange, error) {
	var e Exchange
	if !e.read(enc.Data) {
		e = Exchange{}
		if err := json.Unmarshal(enc.Data, &e); err != nil {
			return Exchange{}, fmt.Errorf("decoding an exchange: %w", err)
		}
	}
	e.New = splitItems(enc.Items)
	if e.HasPrompt && len(e.New) > 0 {
		if both, ok := wire.Elements[json.RawMessage](e.New[0]); ok && len(both) == 2 {
			e.System, e.Tools, e.New = nilIfNull(both[0]), nilIfNull(both[1]), e.New[1:]
		}
	}
	return e, nil
}

func nullIfEmpty(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("null")
	}
	return raw
}

func nilIfNull(raw json.RawMessage) json.RawMessage {
	if string(raw) == "null" {
		return nil
	}
	return raw
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
	items, ok := wire.Elements[json.RawMessage](b)
	if !ok {
		text, _ := json.Marshal(string(b)) // a string always encodes
		return []json.RawMessage{text}
	}
	return items
}
