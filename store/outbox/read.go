package outbox

import (
	"errors"
	"fmt"

	"zombiezen.com/go/sqlite"
)

const selectRows = "SELECT sequence, kind, tenant, session, exchanges, document, sum FROM outbox "

// Read returns the rows with sequence numbers from after+1 to until, in order. The list ends when the
// documents reach maxBytes, and has at least one row if such a row exists.
func (b *Outbox) Read(after, until, maxBytes int64) ([]Row, error) {
	rows, err := b.read(after, until, maxBytes)
	if !errors.Is(err, errDamaged) {
		return rows, err
	}
	b.mu.Lock()
	err = b.replace(err)
	b.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return b.read(after, until, maxBytes)
}

// read reads the rows after one sequence number and up to another, up to about maxBytes bytes.
func (b *Outbox) read(after, until, maxBytes int64) (rows []Row, err error) {
	b.reading.Lock()
	defer b.reading.Unlock()
	s, err := b.reader.Prepare(selectRows + "WHERE sequence > ? AND sequence <= ? ORDER BY sequence")
	if err != nil {
		return nil, classify(err)
	}
	defer func() { err = errors.Join(err, classify(s.Reset())) }()
	s.BindInt64(1, after)
	s.BindInt64(2, until)
	for size := int64(0); size < maxBytes; {
		more, err := s.Step()
		if err != nil || !more {
			return rows, classify(err)
		}
		r, ok := rowOf(s)
		if !ok {
			return nil, fmt.Errorf("%w: row %d has a wrong checksum", errDamaged, r.Sequence)
		}
		rows = append(rows, r)
		size += int64(len(r.Document))
	}
	return rows, nil
}

// rowOf reads a row; ok is false for a wrong checksum.
func rowOf(s *sqlite.Stmt) (r Row, ok bool) {
	r = Row{
		Sequence: s.ColumnInt64(0), Kind: Kind(s.ColumnInt64(1)), Tenant: s.ColumnText(2), Session: idOf(s, 3),
		Exchanges: s.ColumnInt64(4), Document: blob(s, 5),
	}
	return r, r.sum() == s.ColumnInt64(6)
}

func idOf(s *sqlite.Stmt, col int) (id SessionID) {
	s.ColumnBytes(col, id[:])
	return id
}

func blob(s *sqlite.Stmt, col int) []byte {
	b := make([]byte, s.ColumnLen(col))
	s.ColumnBytes(col, b)
	return b
}
