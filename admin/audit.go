package admin

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// AuditFile is where in the data directory every action of an admin is noted, a line of JSON each.
const AuditFile = "audit.jsonl"

const (
	auditShown = 50
	auditRead  = 256 << 10 // of the file's end, at a start
	detailKey  = "audit"   // of the echo context: what an action did, in words
)

// Noted is one action. What it was done to is named by slug or by id: a session that was forgotten
// must not live on by the name that its client gave it.
type Noted struct {
	At     time.Time `json:"at"`
	Who    string    `json:"who"` // the address, and whether a browser's session or a program's token vouched for it
	Action string    `json:"action"`
	Detail string    `json:"detail,omitempty"`
	Status int       `json:"status"` // of the answer: what failed is noted as well
}

// audit notes what was done. Where the file cannot be written, the newest are kept in memory, and
// the log says so.
type audit struct {
	path string // "": in memory only
	mu   sync.Mutex
	list []Noted
}

// openAudit reads the end of what was noted before.
func openAudit(dir string) (*audit, error) {
	a := &audit{}
	if dir == "" {
		return a, nil
	}
	a.path = filepath.Join(dir, AuditFile)
	f, err := os.Open(a.path)
	if errors.Is(err, fs.ErrNotExist) {
		return a, nil
	}
	if err != nil {
		return a, err
	}
	defer f.Close() //nolint:errcheck // only read
	if info, err := f.Stat(); err == nil && info.Size() > auditRead {
		if _, err := f.Seek(-auditRead, 2); err != nil {
			return a, err
		}
	}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var n Noted
		if json.Unmarshal(lines.Bytes(), &n) == nil && !n.At.IsZero() { // the first may be cut
			a.keep(n)
		}
	}
	return a, lines.Err()
}

func (a *audit) keep(n Noted) {
	a.list = append(a.list, n)
	if len(a.list) > 2*auditShown {
		a.list = slices.Clone(a.list[auditShown:])
	}
}

// note writes an action down.
func (a *audit) note(n Noted) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.keep(n)
	if a.path == "" {
		return nil
	}
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(n); err != nil {
		return err
	}
	f, err := os.OpenFile(a.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b.Bytes())
	return errors.Join(err, f.Close())
}

// latest are the newest actions, the newest first.
func (a *audit) latest() []Noted {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := append([]Noted{}, a.list[max(0, len(a.list)-auditShown):]...)
	slices.Reverse(out)
	return out
}
