package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"precept/internal/file"
)

// auditFile is where in the data directory every action of an admin is noted, a line of JSON each.
const auditFile = "audit.jsonl"

const (
	auditShown = 50
	auditRead  = 256 << 10 // bytes from the end of the file that a start reads
	detailKey  = "audit"   // key of the echo context: description of the action
)

// audit records actions. If the file cannot be written, the newest actions stay in memory, and the
// log reports the failure.
type audit struct {
	path string // "": the log is kept in memory only
	mu   sync.Mutex
	list []Noted
}

// openAudit reads the newest recorded actions.
func openAudit(dir string) (*audit, error) {
	a := &audit{}
	if dir == "" {
		return a, nil
	}
	a.path = filepath.Join(dir, auditFile)
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
	text, err := io.ReadAll(f)
	for line := range bytes.Lines(text) {
		var n Noted
		if json.Unmarshal(line, &n) == nil && !n.At.IsZero() { // the first line, and a line of a crash, may be cut
			a.keep(n)
		}
	}
	return a, err
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
	line, err := json.Marshal(n)
	if err != nil {
		return err
	}
	return file.Append(a.path, 0o600, append(line, '\n'))
}

// latest returns the newest actions, the newest first.
func (a *audit) latest() []Noted {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := append([]Noted{}, a.list[max(0, len(a.list)-auditShown):]...)
	slices.Reverse(out)
	return out
}
