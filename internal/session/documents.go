package session

import (
	"bytes"
	"encoding/json"
	"fmt"

	"precept/internal/sample"
)

// Documents are the exchanges and samples of a batch in the form in which a store keeps them.
type Documents struct {
	Sessions  []ID // of the exchanges
	Exchanges []sample.Encoded
	Samples   [][]byte // JSON
}

// Documents encodes a batch. The error is ErrInvalid: it names the first thing that no store can
// keep.
func (b *Batch) Documents() (d Documents, err error) {
	for i := range b.Exchanges {
		e := &b.Exchanges[i]
		id, ok := ParseID(e.Session)
		switch {
		case !ok:
			return d, fmt.Errorf("exchange %q: %w: %q is not the id of a session", e.ID, ErrInvalid, e.Session)
		case e.ID == "":
			return d, fmt.Errorf("exchange of turn %d of session %s: %w: it has no id", e.Turn, id, ErrInvalid)
		}
		d.Sessions, d.Exchanges = append(d.Sessions, id), append(d.Exchanges, e.Encode())
	}
	for i := range b.Samples {
		m := &b.Samples[i]
		if m.Sample.ID == "" {
			return d, fmt.Errorf("sample of session %s: %w: it has no id", m.ID, ErrInvalid)
		}
		var doc bytes.Buffer
		enc := json.NewEncoder(&doc)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(m.Sample); err != nil {
			return d, fmt.Errorf("sample %q: %w: %w", m.Sample.ID, ErrInvalid, err)
		}
		d.Samples = append(d.Samples, bytes.TrimSuffix(doc.Bytes(), []byte("\n")))
	}
	return d, nil
}
