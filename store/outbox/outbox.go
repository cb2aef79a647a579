package outbox

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

const (
	busyTimeout = 5 * time.Second
	// stateAllowance is how far, in bytes, a flush without exchanges is allowed to exceed the quota. Losing a session's
	// row is worse than losing an exchange.
	stateAllowance = 64 << 20
	// sparePages is the number of unused pages (8 MiB in total) that stay in the file.
	sparePages = 1024
	// vacuumPages limits the pages freed per step, so that no caller waits long for the lock.
	vacuumPages = 256
)

// Kind says what a row's document contains.
type Kind int64

const (
	// KindTurns is a row with one session's data from one flush.
	KindTurns Kind = 1
	// KindStub is a row for a turn that was in progress when the program died. It has the Stub's document.
	KindStub Kind = 2
	// KindForgotten is a row whose document Forget deleted before delivery. The exchange count remains, for the
	// account.
	KindForgotten Kind = 3
)

// SessionID is the type of session.ID; this package does not import package session.
type SessionID = [16]byte

// Row is one queue row. Append sets the sequence number.
type Row struct {
	Sequence  int64
	Kind      Kind
	Tenant    string
	Session   SessionID
	Exchanges int64 // exchanges in the document, for the Account
	Document  []byte
}

// Stub records a turn in progress.
type Stub struct {
	ID       string // exchange id
	Tenant   string
	Session  SessionID
	Document []byte
}

// Flush is the input to one Append.
type Flush struct {
	Rows  []Row
	Stubs []Stub
	// Ended lists the ids of exchanges that ended. Append deletes the stubs.
	Ended []string
	// Dropped counts exchanges that will never be stored, by reason.
	Dropped map[string]int64
	// Scrub makes the next Tidy also remove deleted rows' content from the file.
	Scrub bool
	// Notes are values for Outbox.Note, by key.
	Notes map[string]string
	// EarlierAccount, if set, is an earlier file's account (the exchange counts), which Append adds to this file's
	// account. Its exchanges count as stored unless they are incomplete or dropped. Such a flush is allowed to exceed
	// the quota.
	EarlierAccount *Account
}

// IsEmpty reports whether the flush has no row, stub, ended turn or dropped exchange.
func (f *Flush) IsEmpty() bool {
	return len(f.Rows)+len(f.Stubs)+len(f.Ended)+len(f.Dropped) == 0
}

// Options configure an Outbox.
type Options struct {
	Path       string
	QuotaBytes int64 // total row size (limits.outbox_bytes)
	// TenantQuotaBytes limits one tenant's rows (limits.tenant_bytes); 0 means no limit.
	TenantQuotaBytes int64
	// MultiTenant means that several tenants share the queue. RefusedTenants then returns the tenants with the most
	// bytes when the queue becomes full.
	MultiTenant bool
	Now         func() time.Time
	// OnDamage is called with a message for the operator when the file is damaged. It must not block.
	OnDamage func(err error)
}

// Outbox is the durable queue, safe for concurrent use.
type Outbox struct {
	path     string
	quota    int64
	usage    tenantUsage
	now      func() time.Time
	onDamage func(err error)

	mu                sync.Mutex // guards the fields below; a holder can wait for the disk
	writer            *sqlite.Conn
	counts            counts
	storedCounts      counts          // counts in the file
	openTurns         map[string]bool // ids of exchanges in progress; nil until the file is loaded
	hasBallast        bool            // the file that reserves disk space exists
	needsScrub        bool            // unused pages can contain deleted text
	bypassed          Flush           // content from CountBypassed calls, not yet in the file
	bypassedExchanges int64           // exchanges from CountBypassed calls, not yet in the file

	postCount atomic.Int64 // number of posts, for readers that must not wait for mu

	readerMu sync.Mutex // guards reader; lock order: mu, readerMu
	reader   *sqlite.Conn
}

// Open opens or creates a queue's file. Turns that were in progress when the previous process died count as incomplete.
// After a machine restart all rows become undelivered, because the store might have lost unsynced data.
func Open(o Options) (*Outbox, error) {
	b := &Outbox{
		path: o.Path, quota: o.QuotaBytes, usage: tenantUsage{maxBytes: o.TenantQuotaBytes, multiTenant: o.MultiTenant}, now: o.Now, onDamage: o.OnDamage, needsScrub: true,
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	err := b.openFile()
	if errors.Is(err, ErrFull) { // opening also needs disk space
		b.hasBallast = true
		b.dropBallast()
		err = errors.Join(b.close(), b.openFile())
	}
	if errors.Is(err, errDamaged) {
		err = b.replaceDamaged(err)
	}
	if err != nil {
		return nil, errors.Join(err, b.close())
	}
	_ = b.makeBallast() // each write tries again
	return b, nil
}

// openFile repairs SQLite's write-ahead log, opens the file and calls load. The caller holds mu.
func (o *Outbox) openFile() error {
	if _, err := repairLog(o.path+"-wal", damagedName(o.path, o.now())+"-wal"); err != nil {
		return classifyError(err)
	}
	if err := o.open(); err != nil {
		return classifyError(err)
	}
	return classifyError(o.load())
}

// The caller holds mu.
func (o *Outbox) open() (err error) {
	if o.writer, err = openWriter(o.path); err != nil {
		return err
	}
	if o.reader, err = sqlite.OpenConn(o.path, sqlite.OpenReadWrite); err != nil {
		return err
	}
	o.reader.SetBusyTimeout(busyTimeout)
	return sqlitex.ExecuteTransient(o.reader, "PRAGMA query_only = ON", nil)
}

// load reads the account, corrects it to agree with the rows, and ends the turns in progress. The caller holds mu.
func (o *Outbox) load() error {
	var err error
	if o.counts, err = readCounts(o.writer); err != nil {
		return err
	}
	o.storedCounts = o.counts.clone()
	bootBefore, err := o.readMeta("boot")
	if err != nil {
		return err
	}
	var lost loss
	mismatch := false
	err = o.transact(func() error {
		target := o.counts.clone() // the newer account, from the file or the ballast
		accountCopy, ok := o.readAccountCopy()
		if ok && accountCopy.isNewer(&target) {
			target = accountCopy
		}
		found, err := o.readContents(target.Delivered)
		if err != nil {
			return err
		}
		if mismatch = !found.matches(&target) || target.isNewer(&o.counts); mismatch {
			if lost, err = o.reconcile(&target); err != nil {
				return err
			}
		}
		if boot := BootID(); bootBefore != boot || boot == "" {
			if err := o.rewind(); err != nil {
				return err
			}
			if err := o.setMeta("boot", boot); err != nil {
				return err
			}
		}
		return o.endOpenTurns()
	})
	if err == nil {
		o.openTurns = map[string]bool{}
		o.usage.tenantBytes, err = o.usage.bytesByTenant(o.writer, "true")
	}
	if err == nil && mismatch {
		o.onDamage(fmt.Errorf("%w: the number of rows differs from the recorded count; %s are lost", errDamaged, lost))
	}
	return err
}

// endOpenTurns writes a KindStub row for each turn that never ended, and deletes the stubs. The caller has started a
// transaction.
func (o *Outbox) endOpenTurns() error {
	var stubs []Row
	err := sqlitex.Execute(o.writer, "SELECT tenant, session, document FROM begun ORDER BY id", &sqlitex.ExecOptions{
		ResultFunc: func(s *sqlite.Stmt) error {
			stubs = append(stubs, Row{Kind: KindStub, Tenant: s.ColumnText(0), Session: scanID(s, 1), Document: scanBlob(s, 2)})
			return nil
		},
	})
	if err != nil {
		return err
	}
	for i := range stubs {
		if err := o.appendRow(&stubs[i]); err != nil {
			return err
		}
	}
	o.counts.Incomplete += int64(len(stubs))
	return execute(o.writer, "DELETE FROM begun")
}

// Close writes the account (the exchange counts), and closes the file.
func (o *Outbox) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	var err error
	if o.writer != nil && (!o.counts.equal(&o.storedCounts) || !o.bypassed.IsEmpty() || o.bypassedExchanges > 0) {
		err = classifyError(o.transact(func() error { return nil }))
	}
	return errors.Join(err, o.close())
}

func (o *Outbox) close() error {
	var err error
	if o.reader != nil {
		err = o.reader.Close()
	}
	if o.writer != nil {
		err = errors.Join(err, o.writer.Close())
	}
	o.reader, o.writer = nil, nil
	return err
}

func (o *Outbox) readMeta(key string) (value string, err error) {
	err = sqlitex.Execute(o.writer, "SELECT value FROM meta WHERE key = ?", &sqlitex.ExecOptions{
		Args: []any{key}, ResultFunc: func(s *sqlite.Stmt) error { value = s.ColumnText(0); return nil },
	})
	return value, err
}

func (o *Outbox) setMeta(key, value string) error {
	return execute(o.writer, "INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", key, value)
}

// Note returns the value stored under a key by SetNote; "" means none.
func (o *Outbox) Note(key string) (string, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	value, err := o.readMeta(notePrefix + key)
	return value, classifyError(err)
}

// SetNote stores a caller's value under a key.
func (o *Outbox) SetNote(key, value string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.writeWithRepair(func() error { return o.setMeta(notePrefix+key, value) })
}

const notePrefix = "note "

// EndOpenTurns writes a KindStub row for each turn in progress, and deletes the stubs. The process that began the turns
// must have ended.
func (o *Outbox) EndOpenTurns() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	err := o.writeWithRepair(func() error { return o.transact(o.endOpenTurns) })
	if err == nil {
		clear(o.openTurns)
	}
	return err
}

// BootID returns an id that changes each time the machine starts, or "".
func BootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
