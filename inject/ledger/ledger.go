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

// FileName is the ledger of a project.
const FileName = "AGENT.md"

// The times of a writer: how long it waits before it tries a second time, and for the other
// writers.
const (
	retryAfter = 100 * time.Millisecond
	lockWait   = 10 * time.Second
	lockEvery  = 2 * time.Millisecond
)

// Status is what became of an entry.
type Status string

// The statuses.
const (
	Recorded  Status = "recorded"
	Duplicate Status = "duplicate" // this failure stands there already
	Failed    Status = "failed"    // the file could not be written, twice; the trace holds the entry
)

// Result is what became of one entry, by the contract's result.
type Result struct {
	Status    Status `json:"status"`
	Signature string `json:"signature"` // SHA-256 of file and error summary
	Ledger    string `json:"ledger"`
	Entry     Entry  `json:"entry"`             // as written
	Message   string `json:"message,omitempty"` // why it failed
}

// Ledger is one AGENT.md. It may be used by any number of goroutines and processes at once.
type Ledger struct {
	Path string           // of the file; it need not be there
	Now  func() time.Time // the clock
}

// Record appends the entries that are not there yet, all in one step, and tells what became of
// each. Entries that do not validate are the caller's fault and an error; a file that cannot be
// written is not: the work that failed must go on. Then the results say so, the trace holds the
// entries, and untraced tells when even that was not possible.
func (l *Ledger) Record(ctx context.Context, entries ...Entry) (results []Result, untraced error, err error) {
	for i := range entries {
		if err := entries[i].Validate(); err != nil {
			return nil, nil, err
		}
	}
	results = make([]Result, len(entries))
	for i := range entries {
		e := entries[i].folded()
		results[i] = Result{Signature: e.signature(), Ledger: l.Path, Entry: e}
	}
	fault := l.append(ctx, results)
	if fault != nil {
		timer := time.NewTimer(retryAfter)
		defer timer.Stop()
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		fault = l.append(ctx, results)
	}
	if fault != nil {
		for i := range results {
			results[i].Status, results[i].Message = Failed, fault.Error()
		}
	}
	return results, l.trace(results), nil
}

// append writes what is new.
func (l *Ledger) append(ctx context.Context, results []Result) error {
	path, err := target(l.Path)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // a project's folder
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
	s, eol, at := find(text), lineEnd(text), l.Now()
	there := text[s.start:s.end]
	var bullets strings.Builder
	for i := range results {
		e := &results[i].Entry
		results[i].Status = Duplicate
		if has(there, e) || strings.Contains(bullets.String(), e.key(eol)) {
			continue
		}
		results[i].Status = Recorded
		bullets.WriteString(e.render(at, eol))
	}
	if bullets.Len() == 0 {
		return nil
	}
	pos, insert := s.added(text, bullets.String(), eol)
	return replace(path, text[:pos], []byte(insert), text[pos:])
}

// has says whether an entry stands in a section, whatever its line ends.
func has(there []byte, e *Entry) bool {
	return bytes.Contains(there, []byte(e.key("\n"))) || bytes.Contains(there, []byte(e.key("\r\n")))
}

// target follows links to the file that is to be written, which need not be there yet.
func target(path string) (string, error) {
	to, err := filepath.EvalSymlinks(path)
	if err == nil {
		return to, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("follow %s: %w", path, err)
	}
	if to, err = os.Readlink(path); err != nil {
		return path, nil //nolint:nilerr // nothing is there
	}
	if !filepath.IsAbs(to) {
		to = filepath.Join(filepath.Dir(path), to)
	}
	return target(to)
}

// replace writes a file in one step, with the mode that it has: a reader sees the old bytes or the
// new ones.
func replace(path string, parts ...[]byte) error {
	mode := fs.FileMode(0o644)
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	if mode&0o200 == 0 {
		return fmt.Errorf("%s is read-only: %w", path, fs.ErrPermission)
	}
	return file.Write(path, mode, parts...)
}
