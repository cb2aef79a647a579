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

// An earlier release stored undelivered exchanges in a spool, a directory of segment files with records. The first
// start of this release moves them into the outbox, and deletes the directory.

const (
	oldSpoolDir     = "spool" // directory in the outbox directory
	spoolNote       = "spool" // outbox note with the import position
	spoolDone       = "done"  // the note's value after the import
	spoolMagic      = "\xf5pr\n"
	spoolHeaderSize = len(spoolMagic) + 9 // spoolMagic, length (4), checksum (4) and kind (1)
)

type spoolPosition struct {
	Segment int   `json:"segment"`
	Offset  int64 `json:"offset"`
}

type spoolAccount struct {
	At         spoolPosition    `json:"at"`
	Admitted   int64            `json:"admitted"`
	Incomplete int64            `json:"incomplete"`
	Dropped    map[string]int64 `json:"dropped"`
	Open       []spoolStub      `json:"open"`
}

type spoolStub struct {
	ID     string          `json:"id"`
	Doc    json.RawMessage `json:"doc"`
	Reason string          `json:"reason"` // why the turn has no exchange
}

type oldSpool struct {
	dir            string
	box            *outbox.Outbox
	guard          *guard.Guard
	admittedBefore int64         // exchanges counted in the outbox before the import
	position       spoolPosition // after the last imported record
	next           batch         // content not yet in the outbox
	size           int           // bytes in next
	lastSequence   int64         // last sequence number in an imported record
	// noCheckpoint means that the spool's checkpoint is missing or damaged. Exchanges before the first segment then
	// count as stored.
	noCheckpoint bool
}

// importSpool moves any spool in dir into the outbox, and deletes dir. After a crash, the next call continues at the
// position in spoolNote.
func importSpool(dir string, box *outbox.Outbox, g *guard.Guard) error {
	segments, err := filepath.Glob(filepath.Join(dir, "*.spool"))
	if _, statErr := os.Stat(dir); errors.Is(statErr, fs.ErrNotExist) || err != nil {
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
		_, err = fmt.Sscan(note, &o.position.Segment, &o.position.Offset, &o.admittedBefore)
	}
	for _, path := range segments {
		if err == nil && note != spoolDone {
			err = o.importSegment(path)
		}
	}
	if err != nil {
		return fmt.Errorf("move the previous release's spool into the outbox: %w", err)
	}
	if err := errors.Join(box.EndOpenTurns(), box.SetNote(spoolNote, spoolDone), os.RemoveAll(dir)); err != nil {
		return err
	}
	return box.SetNote(spoolNote, "")
}

// importState adds the spool's exchange counts, stubs and opt-out marks to the outbox.
func (o *oldSpool) importState() error {
	o.admittedBefore = o.box.Account().Admitted
	var state struct {
		Boot            string
		Epoch           string
		Delivered, Safe spoolAccount
	}
	b, err := os.ReadFile(filepath.Join(o.dir, "cursor.json"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var checkpoint spoolAccount
	if json.Unmarshal(b, &state) == nil { // without a checkpoint, every record is imported
		checkpoint = state.Delivered
		if state.Boot == "" || state.Boot != outbox.BootID() {
			checkpoint = state.Safe
		}
	} else {
		o.noCheckpoint = true
	}
	o.position = checkpoint.At
	a := outbox.Account{Admitted: checkpoint.Admitted - int64(len(checkpoint.Open)), Incomplete: checkpoint.Incomplete, Dropped: checkpoint.Dropped}
	f := outbox.Flush{Notes: map[string]string{epochNote: state.Epoch, spoolNote: o.positionNote()}, EarlierAccount: &a}
	for _, s := range checkpoint.Open {
		f.Stubs = append(f.Stubs, s.toOutboxStub())
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
	return o.box.AddMarks(list, maxMarks)
}

func (o *oldSpool) positionNote() string {
	return fmt.Sprint(o.position.Segment, " ", o.position.Offset, " ", o.admittedBefore)
}

func (s *spoolStub) toOutboxStub() outbox.Stub {
	var x struct {
		Tenant  string `json:"tenant"`
		Session string `json:"session"`
	}
	_ = json.Unmarshal(s.Doc, &x) // empty if the session was deleted
	id, _ := session.ParseID(x.Session)
	return outbox.Stub{ID: s.ID, Tenant: x.Tenant, Session: id, Document: s.Doc}
}

// importSegment imports one segment, and skips damaged bytes. writeNext counts the exchanges lost in damaged bytes,
// which it finds by gaps in the sequence numbers.
func (o *oldSpool) importSegment(path string) error {
	segment, err := strconv.Atoi(strings.TrimSuffix(filepath.Base(path), ".spool"))
	if err != nil || segment < o.position.Segment {
		return nil //nolint:nilerr // not a segment, or already imported
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	offset := int64(0)
	if segment == o.position.Segment {
		offset = min(o.position.Offset, int64(len(b)))
	}
	for offset < int64(len(b)) {
		kind, payload, size := parseSpoolRecord(b[offset:])
		if size == 0 {
			skip := bytes.Index(b[offset+1:], []byte(spoolMagic))
			if skip < 0 {
				break
			}
			offset += int64(skip) + 1
			continue
		}
		offset += int64(size)
		o.size += size
		if err := o.importRecord(kind, payload, spoolPosition{segment, offset}); err != nil {
			return err
		}
	}
	return o.writeNext(spoolPosition{segment + 1, 0})
}

// parseSpoolRecord decodes the record at the start of b. A size of 0 means no intact record.
func parseSpoolRecord(b []byte) (kind byte, payload []byte, size int) {
	if len(b) < spoolHeaderSize || string(b[:len(spoolMagic)]) != spoolMagic {
		return 0, nil, 0
	}
	length := binary.LittleEndian.Uint32(b[4:])
	if length > 1<<30 || len(b) < spoolHeaderSize+int(length) {
		return 0, nil, 0
	}
	size = spoolHeaderSize + int(length)
	table := crc32.MakeTable(crc32.Castagnoli)
	if crc32.Update(crc32.Update(0, table, b[4:8]), table, b[12:size]) != binary.LittleEndian.Uint32(b[8:]) {
		return 0, nil, 0
	}
	return b[12], b[spoolHeaderSize:size], size
}

// importRecord adds one record to next. At the end of a flush, importRecord writes next to the outbox if next holds at
// least readBytes. It skips a record that does not decode.
func (o *oldSpool) importRecord(kind byte, payload []byte, end spoolPosition) error {
	switch kind {
	case 'O': // restart: turns that were in progress never ended
		return errors.Join(o.writeNext(end), o.box.EndOpenTurns())
	case 'H', 'N': // segment head, or flush end, with a sequence number
		if kind == 'N' && len(payload) == 8 {
			o.lastSequence = int64(binary.LittleEndian.Uint64(payload))
		} else if kind == 'H' {
			var head struct{ Admitted int64 }
			_ = json.Unmarshal(payload, &head)
			o.lastSequence = head.Admitted
		}
		if o.noCheckpoint {
			o.noCheckpoint = false
			_, err := o.box.Append(&outbox.Flush{EarlierAccount: &outbox.Account{Admitted: o.lastSequence}})
			return err
		}
		if kind == 'N' && o.size < readBytes {
			return nil
		}
		return o.writeNext(end)
	}
	var row batch
	if o.guard.RunErr(label.StepReadBack, func() error { return row.decodeOldRecord(kind, payload) }) != nil {
		return nil //nolint:nilerr // writeNext counts the exchange as lost
	}
	o.next.merge(&row)
	o.next.stubs, o.next.endedIDs = append(o.next.stubs, row.stubs...), append(o.next.endedIDs, row.endedIDs...)
	for reason, n := range row.dropped {
		o.next.addDropped(reason, n)
	}
	return nil
}

// writeNext appends next and the position to the outbox. Gaps in the sequence numbers count as damaged exchanges.
func (o *oldSpool) writeNext(end spoolPosition) error {
	o.position, o.size = end, 0
	rows, _, _ := o.next.encodeRows(nil, func(_ session.Ref, _ string, f func()) bool { return o.guard.Run(label.StepOutbox, f) })
	_, err := o.box.Append(&outbox.Flush{
		Rows: rows, Stubs: o.next.stubs, Ended: o.next.endedIDs, Dropped: o.next.dropped, Notes: map[string]string{spoolNote: o.positionNote()}, EarlierAccount: &outbox.Account{},
	})
	o.next = batch{}
	if lost := o.lastSequence + o.admittedBefore - o.box.Account().Admitted; lost > 0 && err == nil {
		_, err = o.box.Append(&outbox.Flush{Dropped: map[string]int64{outbox.DroppedDamaged: lost}})
	}
	return err
}

func (b *batch) decodeOldRecord(kind byte, p []byte) (err error) {
	switch kind {
	case 'E': // exchange: a byte (not 0 if the turn has a stub), id, Data and Items
		if len(p) == 0 {
			return errInvalidDocument
		}
		id, rest, err := cutBytes(p[1:])
		if err != nil {
			return err
		}
		if p[0] != 0 {
			b.endedIDs = []string{string(id)}
		}
		data, items, err := cutBytes(rest)
		if err != nil {
			return err
		}
		doc := appendBytes(appendBytes([]byte{partExchange}, data), items)
		return b.decodeDocument(&outbox.Row{Document: doc}, guard.New(guard.Options{}))
	case 'B': // stub of a turn in progress
		var s spoolStub
		err = json.Unmarshal(p, &s)
		b.stubs = []outbox.Stub{s.toOutboxStub()}
	case 'V': // ended turn without an exchange
		var s spoolStub
		err = json.Unmarshal(p, &s)
		b.endedIDs, b.dropped = []string{s.ID}, map[string]int64{s.Reason: 1}
	case 'D': // dropped exchanges by reason
		err = json.Unmarshal(p, &b.dropped)
	case 'R': // session row: tenant, id, start, last use, flags and data
		tenant, rest, err := cutBytes(p)
		if err != nil || len(rest) < 33 {
			return errInvalidDocument
		}
		r := session.Row{
			Tenant: string(tenant), ID: session.ID(rest[:16]), Started: readTime(rest[16:]), Seen: readTime(rest[24:]),
			Closed: rest[32]&1 != 0, StartedOffline: rest[32]&2 != 0, IsUnit: rest[32]&4 != 0, Data: rest[33:],
		}
		b.rows = []session.Row{r}
	case 'K': // for each tenant: name, number of echo keys, and the keys
		for len(p) > 0 {
			tenant, rest, err := cutBytes(p)
			if err != nil {
				return err
			}
			n, w := binary.Uvarint(rest)
			if w <= 0 || n > uint64(len(rest)-w)/32 {
				return errInvalidDocument
			}
			for p = rest[w:]; n > 0; n, p = n-1, p[32:] {
				b.echoes = append(b.echoes, session.Echo{
					Tenant: string(tenant), Key: session.EchoKey(binary.LittleEndian.Uint64(p)), ID: session.ID(p[8:24]), At: readTime(p[24:]),
				})
			}
		}
	case 'S': // implicit feedback
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
