package outbox

import (
	"encoding/json"
	"errors"
	"fmt"

	"zombiezen.com/go/sqlite"
)

const selectRows = "SELECT sequence, kind, tenant, session, exchanges, document, sum FROM outbox "

// Read returns the rows from after+1 to until, in order. It stops early once the total document size reaches maxBytes.
func (o *Outbox) Read(after, until, maxBytes int64) ([]Row, error) {
	rows, err := o.read(after, until, maxBytes)
	if !errors.Is(err, errDamaged) {
		return rows, err
	}
	o.mu.Lock()
	err = o.replaceDamaged(err)
	o.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return o.read(after, until, maxBytes)
}

// ReadExcept is like Read without the rows from some tenants. The next call continues after sequence number last.
func (o *Outbox) ReadExcept(after, until, maxBytes int64, tenants []string) (rows []Row, last int64, err error) {
	names, err := json.Marshal(tenants)
	if err != nil {
		return nil, after, fmt.Errorf("read other tenants' rows: %w", err)
	}
	rows, err = o.readWhere("AND tenant NOT IN (SELECT value FROM json_each(?)) ", after, until, maxBytes, string(names))
	if err != nil {
		return nil, after, err
	}
	size := int64(0)
	for i := range rows {
		size += int64(len(rows[i].Document))
	}
	if size >= maxBytes {
		until = rows[len(rows)-1].Sequence
	}
	return rows, until, nil
}

func (o *Outbox) read(after, until, maxBytes int64) (rows []Row, err error) {
	return o.readWhere("", after, until, maxBytes)
}

func (o *Outbox) readWhere(condition string, after, until, maxBytes int64, args ...string) (rows []Row, err error) {
	o.readerMu.Lock()
	defer o.readerMu.Unlock()
	s, err := o.reader.Prepare(selectRows + "WHERE sequence > ? AND sequence <= ? " + condition + "ORDER BY sequence")
	if err != nil {
		return nil, classifyError(err)
	}
	defer func() { err = errors.Join(err, classifyError(s.Reset())) }()
	s.BindInt64(1, after)
	s.BindInt64(2, until)
	for i, text := range args {
		s.BindText(3+i, text)
	}
	return readPage(s, maxBytes, func() (Row, int, error) {
		r, ok := scanRow(s)
		if !ok {
			return r, 0, fmt.Errorf("%w: row %d has a wrong checksum", errDamaged, r.Sequence)
		}
		return r, len(r.Document), nil
	})
}

// readPage returns s's results until the total document size reaches maxBytes. scan returns the current result and the
// document size.
func readPage[T any](s *sqlite.Stmt, maxBytes int64, scan func() (T, int, error)) (page []T, err error) {
	for size := int64(0); size < maxBytes; {
		more, err := s.Step()
		if err != nil || !more {
			return page, classifyError(err)
		}
		row, n, err := scan()
		if err != nil {
			return nil, err
		}
		page = append(page, row)
		size += int64(n)
	}
	return page, nil
}

// scanRow returns the queue row in s's current row; ok is false for a wrong checksum.
func scanRow(s *sqlite.Stmt) (r Row, ok bool) {
	r = Row{
		Sequence: s.ColumnInt64(0), Kind: Kind(s.ColumnInt64(1)), Tenant: s.ColumnText(2), Session: scanID(s, 3),
		Exchanges: s.ColumnInt64(4), Document: scanBlob(s, 5),
	}
	return r, r.checksum() == s.ColumnInt64(6)
}

func scanID(s *sqlite.Stmt, col int) (id SessionID) {
	s.ColumnBytes(col, id[:])
	return id
}

func scanBlob(s *sqlite.Stmt, col int) []byte {
	b := make([]byte, s.ColumnLen(col))
	s.ColumnBytes(col, b)
	return b
}
