package admin

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"precept/internal/file"
)

const loginsFile = "admin-sessions.json"

const (
	maxLoginsBytes = 1 << 20 // bytes; maxLogins logins need a quarter
	corruptSuffix  = ".corrupt"
)

// storedLogins is what the file contains: only digests of cookies and HMACs keyed by cookies. A person who reads the
// file can neither log in nor guess a token.
type storedLogins struct {
	Version int           `json:"version"`
	Logins  []storedLogin `json:"logins"`
}

type storedLogin struct {
	Cookie  string    `json:"cookie_sha256"`
	Proof   string    `json:"token_hmac"`
	Used    time.Time `json:"used"`
	Expires time.Time `json:"expires"`
}

// errCorrupt is the error for content that save never writes.
var errCorrupt = errors.New("the file is damaged")

// load reads the logins, and makes save write to path. load ignores logins from the future and returns how many there
// were. After an error, all browsers must log in again; a damaged file is renamed.
func (s *loginStore) load(path string) (future int, err error) {
	s.path = path
	stored, err := readLogins(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, nil
	case errors.Is(err, errCorrupt):
		return 0, errors.Join(err, os.Rename(path, path+corruptSuffix))
	case err != nil:
		return 0, err
	}
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, x := range stored {
		switch {
		case x.isValid(now):
			s.byID[id] = x
		case !now.After(x.expiresAt):
			future++
		}
	}
	return future, nil
}

// readLogins returns the logins by cookie digest.
func readLogins(path string) (map[[32]byte]*login, error) {
	if err := file.CheckRegular(path); err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	text, err := io.ReadAll(io.LimitReader(f, maxLoginsBytes+1))
	if err != nil {
		return nil, err
	}
	var stored storedLogins
	switch {
	case len(text) > maxLoginsBytes:
		return nil, fmt.Errorf("%w: more than %d bytes", errCorrupt, maxLoginsBytes)
	case json.Unmarshal(text, &stored) != nil:
		return nil, fmt.Errorf("%w: no JSON list of logins", errCorrupt)
	case stored.Version != 1:
		return nil, fmt.Errorf("%w: version %d is unknown", errCorrupt, stored.Version)
	case len(stored.Logins) > maxLogins:
		return nil, fmt.Errorf("%w: more than %d logins", errCorrupt, maxLogins)
	}
	out := make(map[[32]byte]*login, len(stored.Logins))
	for i, l := range stored.Logins {
		id, err := hex.DecodeString(l.Cookie)
		proof, proofErr := hex.DecodeString(l.Proof)
		if err != nil || proofErr != nil || len(id) != 32 || len(proof) != 32 {
			return nil, fmt.Errorf("%w: login %d has no 32-byte digests", errCorrupt, i+1)
		}
		out[[32]byte(id)] = &login{proof: [32]byte(proof), usedAt: l.Used, expiresAt: l.Expires}
	}
	return out, nil
}

// save writes all logins. save locks mu only while it copies them, so requests do not wait for the disk.
func (s *loginStore) save() error {
	if s.path == "" {
		return nil
	}
	s.saving.Lock()
	defer s.saving.Unlock()
	return s.write()
}

// saveOrRemove writes all logins. If that fails, it removes the file, because an old file would make an ended login
// valid after a restart. removed reports that the file is gone after a failed write.
func (s *loginStore) saveOrRemove() (removed bool, err error) {
	if s.path == "" {
		return false, nil
	}
	s.saving.Lock()
	defer s.saving.Unlock()
	if err = s.write(); err == nil {
		return false, nil
	}
	removeErr := os.Remove(s.path)
	return removeErr == nil || errors.Is(removeErr, fs.ErrNotExist), err
}

// write writes the valid logins. The caller holds saving, so an older list never replaces a newer one.
func (s *loginStore) write() error {
	stored := storedLogins{Version: 1, Logins: []storedLogin{}}
	now := s.now()
	s.mu.Lock()
	for id, x := range s.byID {
		if x.isValid(now) {
			stored.Logins = append(stored.Logins, storedLogin{hex.EncodeToString(id[:]), hex.EncodeToString(x.proof[:]), x.usedAt.UTC(), x.expiresAt.UTC()})
		}
	}
	s.mu.Unlock()
	text, err := json.Marshal(stored)
	if err != nil {
		return err
	}
	return file.Write(s.path, 0o600, text, []byte("\n"))
}

func (s *Server) loadLogins() {
	o := &s.options
	if o.DataDir == "" {
		return
	}
	future, err := s.logins.load(filepath.Join(o.DataDir, loginsFile))
	switch {
	case errors.Is(err, errCorrupt):
		o.Log.Warn("the stored logins are damaged, so all browsers must log in again; the file was renamed: delete the renamed file",
			"file", loginsFile+corruptSuffix, "error", err)
	case err != nil:
		o.Log.Warn("the stored logins cannot be read, so all browsers must log in again; make the file readable, or delete the file",
			"file", loginsFile, "error", err)
	case future > 0:
		o.Log.Warn("stored logins have future dates and were ignored; the browsers must log in again; check the machine's clock",
			"file", loginsFile, "count", future)
	}
}
