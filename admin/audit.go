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

// auditFile is the audit log in the data directory: one JSON line per action.
const auditFile = "audit.jsonl"

const (
	maxShownActions = 50        // actions on the health page
	auditTailBytes  = 256 << 10 // number of bytes at the end of the file that are read at startup
	detailKey       = "audit"   // echo context key: the action's description
)

// audit is the log of actions by people and programs. The log is a file; the newest actions are also in memory. If
// the file cannot be written, the server log reports the failure.
type audit struct {
	path string // "": memory only
	mu   sync.Mutex
	list []AuditEntry // oldest first; at most 2*maxShownActions
}

// openAudit returns the audit log in a data directory. After an error the log still works, but may lack some of the
// newest actions.
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
	defer f.Close() //nolint:errcheck // nothing was written
	if info, err := f.Stat(); err == nil && info.Size() > auditTailBytes {
		if _, err := f.Seek(-auditTailBytes, 2); err != nil {
			return a, err
		}
	}
	tail, err := io.ReadAll(f)
	for line := range bytes.Lines(tail) {
		var n AuditEntry
		if json.Unmarshal(line, &n) == nil && !n.At.IsZero() { // the first line, and the last line before a crash, may be incomplete
			a.addInMemory(n)
		}
	}
	return a, err
}

func (a *audit) addInMemory(n AuditEntry) {
	a.list = append(a.list, n)
	if len(a.list) > 2*maxShownActions {
		a.list = slices.Clone(a.list[maxShownActions:])
	}
}

func (a *audit) add(n AuditEntry) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.addInMemory(n)
	if a.path == "" {
		return nil
	}
	line, err := json.Marshal(n)
	if err != nil {
		return err
	}
	return file.Append(a.path, 0o600, append(line, '\n'))
}

// latest returns at most maxShownActions actions, newest first.
func (a *audit) latest() []AuditEntry {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := append([]AuditEntry{}, a.list[max(0, len(a.list)-maxShownActions):]...)
	slices.Reverse(out)
	return out
}
