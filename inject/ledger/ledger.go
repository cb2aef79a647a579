package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"precept/internal/file"
)

// FileName is the ledger's name in a project.
const FileName = "AGENT.md"

const (
	retryDelay   = 100 * time.Millisecond // before the second attempt to write
	lockTimeout  = 10 * time.Second       // longest wait for the lock
	lockInterval = 2 * time.Millisecond   // between attempts to take the lock
)

// Status is the outcome of recording an entry.
type Status string

// Outcomes.
const (
	Recorded  Status = "recorded"
	Duplicate Status = "duplicate" // already in the ledger
	Failed    Status = "failed"    // two attempts to write failed; the entry is only in the trace
)

// Result is the outcome for one entry, in the form that the contract prescribes.
type Result struct {
	Status    Status `json:"status"`
	Signature string `json:"signature"` // SHA-256 of file and error summary
	Ledger    string `json:"ledger"`
	Entry     Entry  `json:"entry"`             // entry as sanitized for the ledger
	Message   string `json:"message,omitempty"` // why a write failed
}

// Ledger is an AGENT.md file for concurrent use by goroutines and processes.
type Ledger struct {
	Path string // the file may be missing
	Now  func() time.Time
}

// Record appends the new entries in one step, and returns an outcome for each entry. err reports an invalid entry. If
// writing to the ledger fails, the results have the status Failed, and the trace holds the entries. err is then nil,
// so that the caller still reports the failures in entries. traceErr means that writing to the trace also failed.
func (l *Ledger) Record(ctx context.Context, entries ...Entry) (results []Result, traceErr error, err error) {
	for i := range entries {
		if err := entries[i].Validate(); err != nil {
			return nil, nil, err
		}
	}
	results = make([]Result, len(entries))
	for i := range entries {
		e := entries[i].sanitize()
		results[i] = Result{Signature: e.signature(), Ledger: l.Path, Entry: e}
	}
	writeErr := l.append(ctx, results)
	if writeErr != nil {
		timer := time.NewTimer(retryDelay)
		defer timer.Stop()
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		writeErr = l.append(ctx, results)
	}
	if writeErr != nil {
		for i := range results {
			results[i].Status, results[i].Message = Failed, writeErr.Error()
		}
	}
	return results, l.trace(results), nil
}

// append writes the new entries to the file, and sets each result's status.
func (l *Ledger) append(ctx context.Context, results []Result) error {
	path, err := resolveTarget(l.Path)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // other users may read the folder of a project
		return err
	}
	unlock, err := lock(ctx, filepath.Dir(path))
	if err != nil {
		return err
	}
	defer unlock()
	text, err := file.Read(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	s, eol, at := findSection(text), lineEnd(text), l.Now()
	current := text[s.start:s.end]
	var bullets strings.Builder
	for i := range results {
		e := &results[i].Entry
		results[i].Status = Duplicate
		if containsEntry(current, e) || strings.Contains(bullets.String(), e.identifyingLines(eol)) {
			continue
		}
		results[i].Status = Recorded
		bullets.WriteString(e.render(at, eol))
	}
	if bullets.Len() == 0 {
		return nil
	}
	pos, insert := s.insertion(text, bullets.String(), eol)
	return writeFile(path, text[:pos], []byte(insert), text[pos:])
}

// containsEntry reports whether a section contains an entry, written with either kind of line ending.
func containsEntry(sectionText []byte, e *Entry) bool {
	return bytes.Contains(sectionText, []byte(e.identifyingLines("\n"))) || bytes.Contains(sectionText, []byte(e.identifyingLines("\r\n")))
}

// resolveTarget returns the path after it has followed symbolic links. The file may be missing.
func resolveTarget(path string) (string, error) {
	resolved, err := filepath.EvalSymlinks(path)
	if err == nil {
		return resolved, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("resolve the symbolic link %s: %w", path, err)
	}
	if resolved, err = os.Readlink(path); err != nil {
		return path, nil //nolint:nilerr // the file is missing, and path is no link
	}
	if !filepath.IsAbs(resolved) {
		resolved = filepath.Join(filepath.Dir(path), resolved)
	}
	return resolveTarget(resolved)
}

// writeFile replaces a file and keeps its mode. A reader sees either the old or the new bytes, never a mixture.
func writeFile(path string, parts ...[]byte) error {
	mode := fs.FileMode(0o644)
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	if mode&0o200 == 0 {
		return fmt.Errorf("%s is read-only: %w", path, fs.ErrPermission)
	}
	return file.Write(path, mode, parts...)
}

// lock excludes other writers. The folder itself is locked, so no lock file remains.
func lock(ctx context.Context, dir string) (unlock func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	timeout, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	ticker := time.NewTicker(lockInterval)
	defer ticker.Stop()
	for {
		err := file.TryLock(f)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, file.ErrLocked) {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", dir, err), f.Close())
		}
		select {
		case <-timeout.Done():
			return nil, errors.Join(fmt.Errorf("lock %s: another process has held the lock for %s; try again", dir, lockTimeout), f.Close())
		case <-ticker.C:
		}
	}
}
