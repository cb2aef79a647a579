package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"
)

const (
	cookieName = "precept_session"
	sessionKey = "session" // key of the echo context: the *session of a request with a session cookie
	csrfHeader = "X-CSRF-Token"
	csrfField  = "csrf_token"
)

const (
	sessionAge  = 12 * time.Hour
	maxSessions = 1000
)

// session is a logged-in browser.
type session struct {
	csrf   string
	token  [sha256.Size]byte // digest of the login token: removing the token ends the session
	until  time.Time
	notice notice // result of the last action, for the next page; guarded by the lock of sessions
}

// notice is the result of an action, with the address of its lesson.
type notice struct{ text, href string }

// sessions is kept in memory only: after a restart people log in again. The key is the digest of
// the cookie.
type sessions struct {
	random io.Reader
	now    func() time.Time

	mu   sync.Mutex
	byID map[[sha256.Size]byte]*session
}

func newSessions(random io.Reader, now func() time.Time) *sessions {
	return &sessions{random: random, now: now, byID: map[[sha256.Size]byte]*session{}}
}

// create makes a session and returns the cookie's value.
func (s *sessions) create(token [sha256.Size]byte) (string, error) {
	id, err := randomHex(s.random)
	if err != nil {
		return "", err
	}
	csrf, err := randomHex(s.random)
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.makeRoom()
	s.byID[sha256.Sum256([]byte(id))] = &session{csrf: csrf, token: token, until: s.now().Add(sessionAge)}
	return id, nil
}

// makeRoom drops ended sessions and, if none ended, the session that ends first.
func (s *sessions) makeRoom() {
	now := s.now()
	maps.DeleteFunc(s.byID, func(_ [sha256.Size]byte, one *session) bool { return now.After(one.until) })
	if len(s.byID) >= maxSessions {
		delete(s.byID, slices.MinFunc(slices.Collect(maps.Keys(s.byID)), func(a, b [sha256.Size]byte) int {
			return s.byID[a].until.Compare(s.byID[b].until)
		}))
	}
}

// get finds the session of a cookie.
func (s *sessions) get(id string) (*session, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one, ok := s.byID[sha256.Sum256([]byte(id))]
	if !ok || s.now().After(one.until) {
		return nil, false
	}
	return one, true
}

func (s *sessions) end(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byID, sha256.Sum256([]byte(id)))
}

// keepNotice keeps a sentence for the browser's next page.
func (s *sessions) keepNotice(one *session, n notice) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one.notice = n
}

// notice returns the kept sentence once.
func (s *sessions) notice(one *session) notice {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := one.notice
	one.notice = notice{}
	return kept
}

// vouches reports whether the CSRF token belongs to the session.
func (s *session) vouches(csrf string) bool {
	return subtle.ConstantTimeCompare([]byte(s.csrf), []byte(csrf)) == 1
}

// randomHex returns 32 random bytes in hex.
func randomHex(random io.Reader) (string, error) {
	var b [32]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return "", fmt.Errorf("read random bytes: %w", err)
	}
	return hex.EncodeToString(b[:]), nil
}
