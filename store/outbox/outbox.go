package outbox

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"strings"
	"sync"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

const (
	// busyLimit bounds the wait for another process that looks at the file.
	busyLimit = 5 * time.Second
	// overQuota is how far rows without exchanges may exceed the quota: losing what is known of
	// sessions would cost more than an exchange.
	overQuota = 64 << 20
	// sparePages of the file may be empty (8 MiB) before they are given back.
	sparePages = 1024
	// vacuumPages are given back at once, so that nothing waits long for the lock.
	vacuumPages = 256
)

// Kind is the kind of a row.
type Kind int64

// The kinds of rows.
const (
	// KindTurns is what one flush has of one session; the document is the store's.
	KindTurns Kind = 1
	// KindStub is a turn that was under way when the program died: the document of its Begun.
	KindStub Kind = 2
	// KindForgotten is a row whose text was forgotten before the store had it. Only its count is left.
	KindForgotten Kind = 3
)

// SessionID names a session; it is a session.ID.
type SessionID = [16]byte

// Row is one row of the queue. The sequence number is given by Append.
type Row struct {
	Sequence  int64
	Kind      Kind
	Tenant    string
	Session   SessionID
	Exchanges int64 // in the document, for the account
	Document  []byte
}

// Begun is a turn that is under way.
type Begun struct {
	ID       string // of its exchange
	Tenant   string
	Session  SessionID
	Document []byte
}

// Flush is what Append writes at once.
type Flush struct {
	Rows  []Row
	Begun []Begun
	// Ended are the ids of exchanges whose turn is over: their rows of Begun go.
	Ended []string
	// Dropped counts exchanges of which nothing is kept, by reason.
	Dropped map[string]int64
	// Scrub asks that the text of what ended is taken out of the files, not only out of the tables.
	Scrub bool
	// Notes are values of the owner's; see Outbox.Note.
	Notes map[string]string
	// Carried is the account of an earlier file; nil where there is none. With it the flush may exceed
	// the quota. Of its Admitted, the ones that nothing else counts are stored.
	Carried *Account
}

// Empty reports whether there is nothing to write.
func (f *Flush) Empty() bool {
	return len(f.Rows)+len(f.Begun)+len(f.Ended)+len(f.Dropped) == 0
}

// Options configure an Outbox.
type Options struct {
	Path  string
	Quota int64 // the most bytes that rows may take (limits.outbox_bytes)
	Now   func() time.Time
	// Damaged is called with what the operator must be told when a file is set aside; it must not block.
	Damaged func(err error)
}

// Outbox is the durable queue. Its methods may be called from several goroutines.
type Outbox struct {
	path    string
	quota   int64
	now     func() time.Time
	damaged func(err error)

	mu      sync.Mutex // guards the fields below; a write to the disk is waited for under it
	writer  *sqlite.Conn
	counts  counts          // as of now
	kept    counts          // as they are in the file
	begun   map[string]bool // turns under way by the ids of their exchanges; nil until the file is loaded
	ballast bool            // the file is there
	scrub   bool            // deleted text may be left in unused pages of the file
	owed    Flush           // of Pass, for the next write
	passed  int64           // exchanges, likewise

	reading sync.Mutex // guards reader; it is taken inside of mu, or alone
	reader  *sqlite.Conn
}

// Open opens the queue of a file, or makes one. Turns that were under way when the file was last
// used are incomplete from now on. After a restart of the machine everything that is left is
// undelivered: the store may have lost what it had not synced.
func Open(o Options) (*Outbox, error) {
	b := &Outbox{path: o.Path, quota: o.Quota, now: o.Now, damaged: o.Damaged, scrub: true}
	b.mu.Lock()
	defer b.mu.Unlock()
	err := b.begin()
	if errors.Is(err, ErrFull) { // even to open the file takes some room
		b.ballast = true
		b.dropBallast()
		err = errors.Join(b.close(), b.begin())
	}
	if errors.Is(err, errDamaged) {
		err = b.replace(err)
	}
	if err != nil {
		return nil, errors.Join(err, b.close())
	}
	_ = b.makeBallast() // tried again before each write
	return b, nil
}

// begin opens the file at a start. The caller has mu.
func (b *Outbox) begin() error {
	if _, err := repairLog(b.path+"-wal", asideName(b.path, b.now())+"-wal"); err != nil {
		return classify(err)
	}
	if err := b.open(); err != nil {
		return classify(err)
	}
	return classify(b.load())
}

// open connects to the file. The caller has mu.
func (b *Outbox) open() (err error) {
	if b.writer, err = connect(b.path); err != nil {
		return err
	}
	if b.reader, err = sqlite.OpenConn(b.path, sqlite.OpenReadWrite); err != nil {
		return err
	}
	b.reader.SetBusyTimeout(busyLimit)
	return sqlitex.ExecuteTransient(b.reader, "PRAGMA query_only = ON", nil)
}

// load reads the account, and ends the turns that were under way.
func (b *Outbox) load() error {
	var err error
	if b.counts, err = readCounts(b.writer); err != nil {
		return err
	}
	b.kept = b.counts.clone()
	boot, err := b.meta("boot")
	if err != nil {
		return err
	}
	lost := int64(0)
	err = b.transact(func() error {
		if hint, ok := b.readHint(); ok && hint.newer(&b.counts) {
			if lost, err = b.reconcile(&hint); err != nil {
				return err
			}
		}
		if now := BootID(); boot != now || now == "" {
			if err := b.rewind(); err != nil {
				return err
			}
			if err := b.setMeta("boot", now); err != nil {
				return err
			}
		}
		return b.endBegun()
	})
	if err == nil {
		b.begun = map[string]bool{}
	}
	if lost > 0 {
		b.damaged(fmt.Errorf("%w: it is of an earlier time than its account; %d exchanges are lost", errDamaged, lost))
	}
	return err
}

// endBegun makes rows of the turns that never ended. The caller has begun a transaction.
func (b *Outbox) endBegun() error {
	var stubs []Row
	err := sqlitex.Execute(b.writer, "SELECT tenant, session, document FROM begun ORDER BY id", &sqlitex.ExecOptions{
		ResultFunc: func(s *sqlite.Stmt) error {
			stubs = append(stubs, Row{Kind: KindStub, Tenant: s.ColumnText(0), Session: idOf(s, 1), Document: blob(s, 2)})
			return nil
		},
	})
	if err != nil {
		return err
	}
	for i := range stubs {
		if err := b.insert(&stubs[i]); err != nil {
			return err
		}
	}
	b.counts.Incomplete += int64(len(stubs))
	return execute(b.writer, "DELETE FROM begun")
}

// transact runs fn in a transaction that also writes the account. When the transaction fails, the
// account in memory is what it was. The caller has mu.
func (b *Outbox) transact(fn func() error) (err error) {
	before := b.counts.clone()
	defer func() {
		if err != nil {
			b.counts = before
		}
	}()
	end, err := sqlitex.ImmediateTransaction(b.writer)
	if err != nil {
		return err
	}
	err = func() (err error) {
		defer end(&err)
		if err := errors.Join(b.append(&b.owed), fn()); err != nil {
			return err
		}
		b.counts.Admitted += b.passed
		b.counts.Stored += b.passed
		return writeCounts(b.writer, &b.kept, &b.counts)
	}()
	if err == nil {
		b.kept = b.counts.clone()
		for _, id := range b.owed.Ended {
			delete(b.begun, id)
		}
		b.owed, b.passed = Flush{}, 0
		b.writeHint()
	}
	return err
}

// Append writes a flush, and returns the sequence number of its last row, or of the last row before
// where it has none. On ErrQuota and ErrFull nothing is written.
func (b *Outbox) Append(f *Flush) (last int64, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	err = b.makeBallast()
	if err != nil && b.trim() == nil {
		err = b.makeBallast()
	}
	if err = errors.Join(err, b.settle()); err != nil {
		return b.counts.Sequence, classify(err)
	}
	if err := b.room(f); err != nil {
		return b.counts.Sequence, err
	}
	if err := b.write(func() error { return b.transact(func() error { return b.append(f) }) }); err != nil {
		return b.counts.Sequence, err
	}
	for _, t := range f.Begun {
		b.begun[t.ID] = true
	}
	for _, id := range f.Ended {
		delete(b.begun, id)
	}
	b.scrub = b.scrub || f.Scrub
	return b.counts.Sequence, nil
}

// write runs a change of the file. On a full disk the change is tried again when the file's own
// write-ahead log begins from its start: its blocks are there. Where the file turns out to be damaged,
// the change is tried again on a new one. The caller has mu.
func (b *Outbox) write(change func() error) error {
	err := classify(change())
	if errors.Is(err, ErrFull) && b.checkpoint("RESTART") == nil {
		err = classify(change())
	}
	if errors.Is(err, errDamaged) {
		if err = b.replace(err); err == nil {
			err = classify(change())
		}
	}
	return err
}

// append writes a flush. The caller has begun a transaction.
func (b *Outbox) append(f *Flush) error {
	n := &b.counts
	for i := range f.Rows {
		if err := b.insert(&f.Rows[i]); err != nil {
			return err
		}
		n.Admitted += f.Rows[i].Exchanges
		n.Spooled += f.Rows[i].Exchanges
	}
	for i := range f.Begun {
		t := &f.Begun[i]
		err := execute(b.writer, "INSERT OR REPLACE INTO begun (id, tenant, session, document) VALUES (?, ?, ?, ?)", t.ID, t.Tenant, t.Session[:], t.Document)
		if err != nil {
			return err
		}
		n.Admitted++
	}
	for _, id := range f.Ended {
		if err := execute(b.writer, "DELETE FROM begun WHERE id = ?", id); err != nil {
			return err
		}
		n.Admitted -= int64(b.writer.Changes()) // what became of it is counted with its row, or as dropped
	}
	for reason, lost := range f.Dropped {
		n.Admitted += lost
		n.drop(reason, lost)
	}
	for key, value := range f.Notes {
		if err := b.setMeta(notePrefix+key, value); err != nil {
			return err
		}
	}
	if a := f.Carried; a != nil {
		n.Admitted += a.Admitted
		n.Incomplete += a.Incomplete
		n.Stored += a.Admitted - a.Incomplete
		for reason, lost := range a.Dropped {
			n.Stored -= lost
			n.drop(reason, lost)
		}
	}
	return nil
}

// insert writes a row behind all others. The caller has begun a transaction.
func (b *Outbox) insert(r *Row) error {
	r.Sequence = b.counts.Sequence + 1
	if err := put(b.writer, r); err != nil {
		return err
	}
	b.counts.Sequence = r.Sequence
	return nil
}

// put writes a row under its sequence number. It binds by hand: it is called for each session of
// each flush.
func put(c *sqlite.Conn, r *Row) error {
	s, err := c.Prepare("INSERT OR REPLACE INTO outbox (sequence, kind, tenant, session, exchanges, sum, document) VALUES (?, ?, ?, ?, ?, ?, ?)")
	if err != nil {
		return err
	}
	s.BindInt64(1, r.Sequence)
	s.BindInt64(2, int64(r.Kind))
	s.BindText(3, r.Tenant)
	s.BindBytes(4, r.Session[:])
	s.BindInt64(5, r.Exchanges)
	s.BindInt64(6, r.sum())
	s.BindBytes(7, r.Document)
	_, err = s.Step()
	return errors.Join(err, s.Reset())
}

// sum is the checksum of a row.
func (r *Row) sum() int64 {
	var head [24]byte
	binary.LittleEndian.PutUint64(head[:], uint64(r.Sequence))
	binary.LittleEndian.PutUint64(head[8:], uint64(r.Kind))
	binary.LittleEndian.PutUint64(head[16:], uint64(r.Exchanges))
	table := crc32.MakeTable(crc32.Castagnoli) // the standard library keeps it
	sum := crc32.Update(0, table, head[:])
	sum = crc32.Update(sum, table, []byte(r.Tenant))
	sum = crc32.Update(sum, table, r.Session[:])
	return int64(crc32.Update(sum, table, r.Document))
}

const columns = "SELECT sequence, kind, tenant, session, exchanges, document, sum FROM outbox "

// rowOf reads a row; ok is false where its checksum is wrong.
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

// Read returns the rows behind one sequence number and up to another, in order: at least one where
// there is one, and no more when they have so many bytes.
func (b *Outbox) Read(after, until, most int64) ([]Row, error) {
	rows, err := b.read(after, until, most)
	if !errors.Is(err, errDamaged) {
		return rows, err
	}
	b.mu.Lock()
	err = b.replace(err)
	b.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return b.read(after, until, most)
}

func (b *Outbox) read(after, until, most int64) (rows []Row, err error) {
	b.reading.Lock()
	defer b.reading.Unlock()
	s, err := b.reader.Prepare(columns + "WHERE sequence > ? AND sequence <= ? ORDER BY sequence")
	if err != nil {
		return nil, classify(err)
	}
	defer func() { err = errors.Join(err, classify(s.Reset())) }()
	s.BindInt64(1, after)
	s.BindInt64(2, until)
	for size := int64(0); size < most; {
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

// Advance notes that the store has taken the rows up to a sequence number, which hold so many
// exchanges; those that it refused are counted as dropped. The file has the news with the next
// write.
func (b *Outbox) Advance(to, exchanges int64, refused map[string]int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := &b.counts
	n.Delivered = max(n.Delivered, to)
	n.Spooled -= exchanges
	n.Stored += exchanges
	for reason, lost := range refused {
		n.Stored -= lost
		n.drop(reason, lost)
	}
}

// Pass notes exchanges that the store got without a row, because the queue had no room for them, and
// what ended with them. The file has the news with the next write that succeeds.
func (b *Outbox) Pass(exchanges int64, f *Flush) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.passed += exchanges
	b.owed.Ended = append(b.owed.Ended, f.Ended...)
	for reason, n := range f.Dropped {
		if b.owed.Dropped == nil {
			b.owed.Dropped = map[string]int64{}
		}
		b.owed.Dropped[reason] += n
	}
	b.scrub = b.scrub || f.Scrub
	_ = b.write(func() error { return b.transact(func() error { return nil }) }) // the next write tries again
}

// Release writes down how far the rows are delivered, and deletes the rows up to safe: the store
// cannot lose them any more. On a full disk Release gives up the ballast for that.
func (b *Outbox) Release(safe int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if safe <= b.counts.Released && b.counts.equal(&b.kept) && b.owed.Empty() && b.passed == 0 {
		return nil
	}
	free := func() error {
		return b.transact(func() error {
			b.counts.Released = max(safe, b.counts.Released)
			return execute(b.writer, "DELETE FROM outbox WHERE sequence <= ?", safe)
		})
	}
	err := b.write(free)
	if errors.Is(err, ErrFull) {
		b.dropBallast()
		err = b.write(free)
	}
	if err == nil && !b.ballast {
		b.shrink()
		_ = b.makeBallast() // tried again before each write
	}
	if err == nil && b.ballast { // not on a full disk, where the ballast is gone: taking text out needs room
		// Deleted text stays in unused pages and in the write-ahead log until both are reused, which does not
		// happen in a queue at rest. Retention and forgetting promise that the text is gone.
		left, failed := number(b.writer, "SELECT count(*) FROM (SELECT 1 FROM outbox LIMIT 1)")
		b.scrub = b.scrub || failed == nil && left == 0
	}
	return err
}

// Rewind makes every row that is left undelivered: the store has lost what it had taken.
func (b *Outbox) Rewind() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.write(func() error { return b.transact(b.rewind) })
}

func (b *Outbox) rewind() error {
	again, err := number(b.writer, "SELECT coalesce(sum(exchanges), 0) FROM outbox WHERE sequence <= ?", b.counts.Delivered)
	if err != nil {
		return err
	}
	first, err := number(b.writer, "SELECT coalesce(min(sequence), 0) FROM outbox")
	if err != nil {
		return err
	}
	if first > 0 {
		b.counts.Delivered = min(b.counts.Delivered, first-1)
	}
	b.counts.Spooled += again
	b.counts.Stored -= again
	return nil
}

// Spooled is how many exchanges the store does not have yet.
func (b *Outbox) Spooled() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.counts.Spooled
}

// Delivered is the sequence number up to which the store has taken the rows, End the last one.
func (b *Outbox) Delivered() (to, end int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.counts.Delivered, b.counts.Sequence
}

// Forget takes the text of sessions of a tenant out of the file; of all sessions where ids is nil.
// The count of what was not delivered stays.
func (b *Outbox) Forget(tenant string, ids []SessionID) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	where, args := "tenant = ?", []any{tenant}
	if ids != nil {
		for i := range ids {
			args = append(args, ids[i][:])
		}
		where += " AND session IN (" + strings.Repeat("?, ", max(len(ids)-1, 0)) + "?)"
	}
	if ids != nil && len(ids) == 0 {
		return nil
	}
	b.scrub = true
	return b.write(func() error { return b.transact(func() error { return b.forget(where, args) }) })
}

func (b *Outbox) forget(where string, args []any) error {
	delivered := append([]any{b.counts.Delivered}, args...)
	if err := execute(b.writer, "DELETE FROM outbox WHERE sequence <= ? AND "+where, delivered...); err != nil {
		return err
	}
	var waiting []Row
	err := sqlitex.Execute(b.writer, "SELECT sequence, tenant, session, exchanges FROM outbox WHERE "+where, &sqlitex.ExecOptions{
		Args: args, ResultFunc: func(s *sqlite.Stmt) error {
			waiting = append(waiting, Row{
				Sequence: s.ColumnInt64(0), Kind: KindForgotten, Tenant: s.ColumnText(1), Session: idOf(s, 2), Exchanges: s.ColumnInt64(3),
			})
			return nil
		},
	})
	if err != nil {
		return err
	}
	for i := range waiting {
		if err := put(b.writer, &waiting[i]); err != nil {
			return err
		}
	}
	return execute(b.writer, "UPDATE begun SET document = x'' WHERE "+where, args...)
}

// Tidy keeps the file small: it gives back unused pages where there are many, and all of them where
// deleted text must not stay in the file. Half-read text of deleted rows also leaves the file's own
// write-ahead log.
func (b *Outbox) Tidy() error {
	b.mu.Lock()
	scrub := b.scrub
	b.mu.Unlock()
	keep := int64(sparePages)
	if scrub {
		keep = 0
	}
	for {
		b.mu.Lock()
		n, err := b.vacuum(keep, vacuumPages)
		if err == nil && n == 0 && scrub {
			if err = b.checkpoint("TRUNCATE"); err == nil {
				b.scrub = false
			}
		}
		b.mu.Unlock()
		if err != nil || n == 0 {
			return classify(err)
		}
	}
}

// Scrub asks Tidy to take the text of deleted rows out of the file.
func (b *Outbox) Scrub() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.scrub = true
}

// GiveWay leaves what room there is on a full disk to the store: it gives up the ballast and every
// unused page.
func (b *Outbox) GiveWay() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dropBallast()
	b.shrink()
}

// shrink gives back unused pages on a full disk, as far as that goes: in pieces that fit into the
// ballast's room, and with the write-ahead log emptied after each. The caller has mu.
func (b *Outbox) shrink() {
	for {
		n, err := b.vacuum(0, ballastBytes/pageBytes/4)
		if b.checkpoint("RESTART") != nil || err != nil || n == 0 {
			return
		}
	}
}

// vacuum gives back up to most unused pages, but for keep, and returns how many. The caller has mu.
func (b *Outbox) vacuum(keep, most int64) (n int64, err error) {
	free, err := number(b.writer, "PRAGMA freelist_count")
	if err != nil || free <= keep {
		return 0, err
	}
	n = min(free-keep, most)
	return n, sqlitex.ExecuteTransient(b.writer, fmt.Sprintf("PRAGMA incremental_vacuum(%d)", n), nil)
}

// settle sees to it that the ballast's room is enough for the file to grow by what stands in the
// file's own write-ahead log alone. Without that, a full disk could not be emptied: nothing leaves
// that log while the file cannot grow. The caller has mu.
func (b *Outbox) settle() error {
	pages, err := number(b.writer, "PRAGMA page_count")
	if err != nil {
		return err
	}
	info, err := os.Stat(b.path)
	if err != nil || pages*pageBytes-info.Size() <= ballastBytes/2 {
		return err
	}
	return sqlitex.ExecuteTransient(b.writer, "PRAGMA wal_checkpoint(PASSIVE)", nil)
}

// trim cuts the file's own write-ahead log down to what the account needs on a full disk. The caller
// has mu.
func (b *Outbox) trim() error {
	limit := func(n int) error {
		return sqlitex.ExecuteTransient(b.writer, fmt.Sprintf("PRAGMA journal_size_limit = %d", n), nil)
	}
	if err := errors.Join(limit(trimmedLog), b.checkpoint("RESTART")); err != nil {
		return err
	}
	return errors.Join(b.setMeta("trimmed", b.now().String()), limit(logBytes)) // the log is cut at a commit
}

// checkpoint writes everything in the file's own write-ahead log into the file. In the mode RESTART the
// log is then used again from its start, in the mode TRUNCATE it is emptied.
func (b *Outbox) checkpoint(mode string) error {
	busy, err := number(b.writer, "PRAGMA wal_checkpoint("+mode+")")
	if err == nil && busy != 0 {
		err = errors.New("outbox: another program is reading the file; its write-ahead log is written back later")
	}
	return err
}

// room reports whether a flush may be written. The caller has mu.
func (b *Outbox) room(f *Flush) error {
	used, err := b.used()
	if err != nil {
		return classify(err)
	}
	quota, exchanges := b.quota+overQuota, false
	for i := range f.Rows {
		used += int64(len(f.Rows[i].Document))
		exchanges = exchanges || f.Rows[i].Exchanges > 0
	}
	if exchanges {
		quota = b.quota
	}
	if used > quota && len(f.Rows) > 0 && f.Carried == nil {
		return ErrQuota
	}
	return nil
}

// used is how many bytes of the file hold something. The caller has mu.
func (b *Outbox) used() (int64, error) {
	all, err := number(b.writer, "PRAGMA page_count")
	if err != nil {
		return 0, err
	}
	free, err := number(b.writer, "PRAGMA freelist_count")
	return (all - free) * pageBytes, err
}

// Bytes is what the rows take on the disk.
func (b *Outbox) Bytes() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.writer == nil {
		return 0
	}
	n, err := b.used()
	if err != nil {
		return 0
	}
	return n
}

// Close writes down how far the rows are delivered, and closes the file.
func (b *Outbox) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var err error
	if b.writer != nil && (!b.counts.equal(&b.kept) || !b.owed.Empty() || b.passed > 0) {
		err = classify(b.transact(func() error { return nil }))
	}
	return errors.Join(err, b.close())
}

func (b *Outbox) close() error {
	var err error
	if b.reader != nil {
		err = b.reader.Close()
	}
	if b.writer != nil {
		err = errors.Join(err, b.writer.Close())
	}
	b.reader, b.writer = nil, nil
	return err
}

// meta reads a value that the owner or this package noted, "" where there is none.
func (b *Outbox) meta(key string) (value string, err error) {
	err = sqlitex.Execute(b.writer, "SELECT value FROM meta WHERE key = ?", &sqlitex.ExecOptions{
		Args: []any{key}, ResultFunc: func(s *sqlite.Stmt) error { value = s.ColumnText(0); return nil },
	})
	return value, err
}

func (b *Outbox) setMeta(key, value string) error {
	return execute(b.writer, "INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", key, value)
}

// Note returns a value that SetNote wrote, "" where there is none.
func (b *Outbox) Note(key string) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	value, err := b.meta(notePrefix + key)
	return value, classify(err)
}

// SetNote writes a value of the owner's.
func (b *Outbox) SetNote(key, value string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.write(func() error { return b.setMeta(notePrefix+key, value) })
}

const notePrefix = "note "

// EndBegun makes incomplete what is under way: the program that began it has ended.
func (b *Outbox) EndBegun() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	err := b.write(func() error { return b.transact(b.endBegun) })
	if err == nil {
		clear(b.begun)
	}
	return err
}

// BootID changes when the machine starts anew, "" where that cannot be read.
func BootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
