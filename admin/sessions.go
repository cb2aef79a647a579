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
	maxSessions = 1000 // logged-in browsers
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

// sessions holds the logged-in browsers, in memory only, so that people log in again after a restart.
type sessions struct {
	random io.Reader
	now    func() time.Time

	mu   sync.Mutex
	byID map[[sha256.Size]byte]*session // key: the digest of the cookie's value
}

func newSessions(random io.Reader, now func() time.Time) *sessions {
	return &sessions{random: random, now: now, byID: map[[sha256.Size]byte]*session{}}
}

// create adds a session for a login with the token of this digest, and returns the value of its cookie.
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

// makeRoom removes expired sessions. If maxSessions remain, makeRoom removes the session that expires first.
func (s *sessions) makeRoom() {
	now := s.now()
	maps.DeleteFunc(s.byID, func(_ [sha256.Size]byte, sess *session) bool { return now.After(sess.until) })
	if len(s.byID) >= maxSessions {
		delete(s.byID, slices.MinFunc(slices.Collect(maps.Keys(s.byID)), func(a, b [sha256.Size]byte) int {
			return s.byID[a].until.Compare(s.byID[b].until)
		}))
	}
}

// get returns the session of a cookie's value; ok is false for an unknown or expired session.
func (s *sessions) get(id string) (*session, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sess, ok := s.byID[sha256.Sum256([]byte(id))]
	if !ok || s.now().After(sess.until) {
		return nil, false
	}
	return sess, true
}

func (s *sessions) end(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byID, sha256.Sum256([]byte(id)))
}

// keepNotice stores a notice for the next page of a browser.
func (s *sessions) keepNotice(sess *session, n notice) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sess.notice = n
}

// notice returns the notice for a browser's next page, and removes it.
func (s *sessions) notice(sess *session) notice {
	s.mu.Lock()
	defer s.mu.Unlock()
	pending := sess.notice
	sess.notice = notice{}
	return pending
}

// hasCSRF reports whether csrf is the CSRF token of the session.
func (s *session) hasCSRF(csrf string) bool {
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
