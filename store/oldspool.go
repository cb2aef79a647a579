package store

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"precept/bandit/feedback"
	"precept/internal/guard"
	"precept/internal/label"
	"precept/internal/session"
	"precept/store/outbox"
)

// An earlier release had no outbox, and stored undelivered exchanges in a spool: a directory of segment
// files. The first start of this release moves the content into the outbox, and deletes the directory.

const (
	oldSpoolDir = "spool" // subdirectory of the outbox directory
	spoolNote   = "spool" // note in the outbox: position up to which the segments are read
	spoolDone   = "done"
	spoolMark   = "\xf5pr\n"
	spoolHead   = len(spoolMark) + 9 // size of the head of a record: spoolMark, length (4), checksum (4) and kind (1)
)

// spoolPlace is an offset in a segment.
type spoolPlace struct {
	Segment int   `json:"segment"`
	Offset  int64 `json:"offset"`
}

// spoolAck is the account in the old checkpoint.
type spoolAck struct {
	At         spoolPlace       `json:"at"`
	Admitted   int64            `json:"admitted"`
	Incomplete int64            `json:"incomplete"`
	Dropped    map[string]int64 `json:"dropped"`
	Open       []spoolStub      `json:"open"`
}

// spoolStub is a turn in progress.
type spoolStub struct {
	ID     string          `json:"id"`
	Doc    json.RawMessage `json:"doc"`
	Reason string          `json:"reason"` // reason of a turn without an exchange
}

// oldSpool imports an old spool into the outbox.
type oldSpool struct {
	dir   string
	box   *outbox.Outbox
	guard *guard.Guard
	base  int64      // exchanges that the outbox had admitted before the import
	at    spoolPlace // position after the last imported record
	next  batch      // records since the last write
	size  int        // bytes of the records in next
	seq   int64      // last sequence number of a record
	// noCheckpoint reports that the spool has no checkpoint. Exchanges before the first segment then count as
	// stored.
	noCheckpoint bool
}

// drainSpool moves the spool of an earlier release into the outbox, if the spool exists.
func drainSpool(dir string, box *outbox.Outbox, g *guard.Guard) error {
	segments, err := filepath.Glob(filepath.Join(dir, "*.spool"))
	if _, e := os.Stat(dir); errors.Is(e, fs.ErrNotExist) || err != nil {
		return err
	}
	note, err := box.Note(spoolNote)
	if err != nil {
		return err
	}
	o := &oldSpool{dir: dir, box: box, guard: g}
	switch {
	case note == spoolDone:
	case note == "":
		err = o.importState()
	default:
		_, err = fmt.Sscan(note, &o.at.Segment, &o.at.Offset, &o.base)
	}
	for _, path := range segments {
		if err == nil && note != spoolDone {
			err = o.segment(path)
		}
	}
	if err != nil {
		return fmt.Errorf("take the spool of the previous release into the outbox: %w", err)
	}
	if err := errors.Join(box.EndOpenTurns(), box.SetNote(spoolNote, spoolDone), os.RemoveAll(dir)); err != nil {
		return err
	}
	return box.SetNote(spoolNote, "")
}

// importState imports the account, the stubs of turns in progress and the opt-out marks.
func (o *oldSpool) importState() error {
	o.base = o.box.Account().Admitted
	var cursor struct {
		Boot            string
		Epoch           string
		Delivered, Safe spoolAck
	}
	b, err := os.ReadFile(filepath.Join(o.dir, "cursor.json"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var ack spoolAck
	if json.Unmarshal(b, &cursor) == nil { // without a checkpoint every record is delivered again
		ack = cursor.Delivered
		if cursor.Boot == "" || cursor.Boot != outbox.BootID() {
			ack = cursor.Safe
		}
	} else {
		o.noCheckpoint = true
	}
	o.at = ack.At
	a := outbox.Account{Admitted: ack.Admitted - int64(len(ack.Open)), Incomplete: ack.Incomplete, Dropped: ack.Dropped}
	f := outbox.Flush{Notes: map[string]string{epochNote: cursor.Epoch, spoolNote: o.place()}, Carried: &a}
	for _, s := range ack.Open {
		f.Stubs = append(f.Stubs, s.stub())
	}
	if _, err := o.box.Append(&f); err != nil {
		return err
	}
	marks, err := os.ReadFile(filepath.Join(o.dir, "optouts"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var list []outbox.Mark
	for ; len(marks) >= 16; marks = marks[16:] {
		list = append(list, outbox.Mark{
			Name: binary.LittleEndian.Uint64(marks), Turns: binary.LittleEndian.Uint32(marks[8:]), Items: binary.LittleEndian.Uint32(marks[12:]),
		})
	}
	return o.box.KeepMarks(list, maxMarks)
}

func (o *oldSpool) place() string { return fmt.Sprint(o.at.Segment, " ", o.at.Offset, " ", o.base) }

// stub converts a stub of the spool to a stub of the outbox. Tenant and session are in the document.
func (s *spoolStub) stub() outbox.Stub {
	var x struct {
		Tenant  string `json:"tenant"`
		Session string `json:"session"`
	}
	_ = json.Unmarshal(s.Doc, &x) // the document of a forgotten stub is empty
	id, _ := session.ParseID(x.Session)
	return outbox.Stub{ID: s.ID, Tenant: x.Tenant, Session: id, Document: s.Doc}
}

// segment imports one segment. Damaged bytes are skipped; write computes the number of lost exchanges
// from the sequence numbers.
func (o *oldSpool) segment(path string) error {
	n, err := strconv.Atoi(strings.TrimSuffix(filepath.Base(path), ".spool"))
	if err != nil || n < o.at.Segment {
		return nil //nolint:nilerr // another program's file
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	at := int64(0)
	if n == o.at.Segment {
		at = min(o.at.Offset, int64(len(b)))
	}
	for at < int64(len(b)) {
		kind, payload, size := spoolFrame(b[at:])
		if size == 0 {
			skip := bytes.Index(b[at+1:], []byte(spoolMark))
			if skip < 0 {
				break
			}
			at += int64(skip) + 1
			continue
		}
		at += int64(size)
		o.size += size
		if err := o.record(kind, payload, spoolPlace{n, at}); err != nil {
			return err
		}
	}
	return o.write(spoolPlace{n + 1, 0})
}

// spoolFrame reads the record at the start of b; size is 0 if there is no record.
func spoolFrame(b []byte) (kind byte, payload []byte, size int) {
	if len(b) < spoolHead || string(b[:len(spoolMark)]) != spoolMark {
		return 0, nil, 0
	}
	n := binary.LittleEndian.Uint32(b[4:])
	if n > 1<<30 || len(b) < spoolHead+int(n) {
		return 0, nil, 0
	}
	size = spoolHead + int(n)
	table := crc32.MakeTable(crc32.Castagnoli)
	if crc32.Update(crc32.Update(0, table, b[4:8]), table, b[12:size]) != binary.LittleEndian.Uint32(b[8:]) {
		return 0, nil, 0
	}
	return b[12], b[spoolHead:size], size
}

// record adds one record to next, and writes next at the end of a flush. An unreadable record is
// skipped: write counts its exchange as lost.
func (o *oldSpool) record(kind byte, payload []byte, end spoolPlace) error {
	switch kind {
	case 'O': // a new run began: earlier turns in progress never ended
		return errors.Join(o.write(end), o.box.EndOpenTurns())
	case 'H', 'N': // the head of a segment, or the end of a flush, with a sequence number
		if kind == 'N' && len(payload) == 8 {
			o.seq = int64(binary.LittleEndian.Uint64(payload))
		} else if kind == 'H' {
			var head struct{ Admitted int64 }
			_ = json.Unmarshal(payload, &head)
			o.seq = head.Admitted
		}
		if o.noCheckpoint {
			o.noCheckpoint = false
			_, err := o.box.Append(&outbox.Flush{Carried: &outbox.Account{Admitted: o.seq}})
			return err
		}
		if kind == 'N' && o.size < readBytes {
			return nil
		}
		return o.write(end)
	}
	var row batch
	if o.guard.Err(label.StepReadBack, func() error { return row.readOld(kind, payload) }) != nil {
		return nil //nolint:nilerr // write counts the exchange as lost
	}
	o.next.merge(&row)
	o.next.stubs, o.next.ended = append(o.next.stubs, row.stubs...), append(o.next.ended, row.ended...)
	for reason, n := range row.dropped {
		o.next.drop(reason, n)
	}
	return nil
}

// write appends next to the outbox with the position end, and counts lost exchanges: the difference
// between the last sequence number and the number of admitted exchanges.
func (o *oldSpool) write(end spoolPlace) error {
	o.at, o.size = end, 0
	rows, _, _ := o.next.documents(nil, func(_ session.Ref, _ string, f func()) bool { return o.guard.Step(label.StepSpool, f) })
	_, err := o.box.Append(&outbox.Flush{
		Rows: rows, Stubs: o.next.stubs, Ended: o.next.ended, Dropped: o.next.dropped, Notes: map[string]string{spoolNote: o.place()}, Carried: &outbox.Account{},
	})
	o.next = batch{}
	if lost := o.seq + o.base - o.box.Account().Admitted; lost > 0 && err == nil {
		_, err = o.box.Append(&outbox.Flush{Dropped: map[string]int64{outbox.DroppedDamaged: lost}})
	}
	return err
}

// readOld decodes a record of an old spool.
func (b *batch) readOld(kind byte, p []byte) (err error) {
	switch kind {
	case 'E': // a byte (1: a stub exists), the id, the two parts of the encoding
		if len(p) == 0 {
			return errDocument
		}
		id, rest, err := cutText(p[1:])
		if err != nil {
			return err
		}
		if p[0] != 0 {
			b.ended = []string{string(id)}
		}
		data, items, err := cutText(rest)
		if err != nil {
			return err
		}
		doc := appendText(appendText([]byte{partExchange}, data), items)
		return b.read(&outbox.Row{Document: doc}, guard.New(guard.Options{}))
	case 'B':
		var s spoolStub
		err = json.Unmarshal(p, &s)
		b.stubs = []outbox.Stub{s.stub()}
	case 'V':
		var s spoolStub
		err = json.Unmarshal(p, &s)
		b.ended, b.dropped = []string{s.ID}, map[string]int64{s.Reason: 1}
	case 'D':
		err = json.Unmarshal(p, &b.dropped)
	case 'R':
		tenant, rest, err := cutText(p)
		if err != nil || len(rest) < 33 {
			return errDocument
		}
		r := session.Row{
			Tenant: string(tenant), ID: session.ID(rest[:16]), Started: readTime(rest[16:]), Seen: readTime(rest[24:]),
			Closed: rest[32]&1 != 0, StandIn: rest[32]&2 != 0, Unit: rest[32]&4 != 0, Data: rest[33:],
		}
		b.rows = []session.Row{r}
	case 'K': // for each tenant its name and number, and the echoes
		for len(p) > 0 {
			tenant, rest, err := cutText(p)
			if err != nil {
				return err
			}
			n, w := binary.Uvarint(rest)
			if w <= 0 || n > uint64(len(rest)-w)/32 {
				return errDocument
			}
			for p = rest[w:]; n > 0; n, p = n-1, p[32:] {
				b.echoes = append(b.echoes, session.Echo{
					Tenant: string(tenant), Key: session.EchoKey(binary.LittleEndian.Uint64(p)), ID: session.ID(p[8:24]), At: readTime(p[24:]),
				})
			}
		}
	case 'S':
		var s struct {
			Tenant, Session string
			Entry           feedback.Entry
		}
		err = json.Unmarshal(p, &s)
		id, _ := session.ParseID(s.Session)
		b.signals = []signal{{session.Ref{Tenant: s.Tenant, ID: id}, s.Entry}}
	}
	return err
}
