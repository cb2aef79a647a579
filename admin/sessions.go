package admin

import (
	"crypto/hmac"
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
	cookieName        = "precept_session"
	browserSessionKey = "session" // key of the echo context: the *session of a request with a session cookie
	csrfHeader        = "X-CSRF-Token"
	csrfField         = "csrf_token"
)

const (
	maxLoginAge = 12 * time.Hour
	maxLogins   = 1000 // maximum number of logins
)

// browserSession identifies the logged-in browser that sent a request. All fields are derived from the cookie and the
// login.
type browserSession struct {
	id    [sha256.Size]byte // digest of the cookie's value
	csrf  string            // HMAC of a constant, keyed by the cookie's value
	proof [sha256.Size]byte // copy of login.proof
}

// login is the login of a browser. The lock of sessions guards the fields.
type login struct {
	proof     [sha256.Size]byte // proofOf of the login's token, so that the removal of the token ends the login
	usedAt    time.Time         // time of the login or of a later use; a use is stored at most once in usedEvery
	expiresAt time.Time
	notice    notice // result of the last action, for the next page
}

const (
	usedEvery  = 10 * time.Minute // minimum time between two updates of login.used
	clockSlack = time.Minute      // the clock may be set back by this time without ending a login
)

// isValid reports whether a login is valid at the time now. A login from the future is invalid: the clock was set back
// since the login, so the age of the login is unknown.
func (l *login) isValid(now time.Time) bool {
	return !now.After(l.expiresAt) && !l.usedAt.After(now.Add(clockSlack)) && !l.expiresAt.After(now.Add(maxLoginAge+clockSlack))
}

// proofOf returns the HMAC of the digest of a token, keyed by the value of a cookie. Without the cookie, the proof
// cannot be used to test guesses of the token.
func proofOf(cookie string, token [sha256.Size]byte) (proof [sha256.Size]byte) {
	m := hmac.New(sha256.New, []byte(cookie))
	m.Write([]byte("token "))
	m.Write(token[:])
	m.Sum(proof[:0])
	return proof
}

// csrfOf returns the CSRF token of the login with this cookie.
func csrfOf(cookie string) string {
	m := hmac.New(sha256.New, []byte(cookie))
	m.Write([]byte("csrf"))
	return hex.EncodeToString(m.Sum(nil))
}

// notice is the result of an action in words, with the address of the lesson if the action was on a lesson.
type notice struct{ text, href string }

// loginStore holds the logins of browsers, in memory and in a file, so that logins survive a restart.
type loginStore struct {
	random io.Reader
	now    func() time.Time
	path   string     // file of the logins; empty: in memory only
	saving sync.Mutex // held during a write of the file; locked before mu

	mu   sync.Mutex
	byID map[[sha256.Size]byte]*login // key: the digest of the cookie's value
}

func newLoginStore(random io.Reader, now func() time.Time) *loginStore {
	return &loginStore{random: random, now: now, byID: map[[sha256.Size]byte]*login{}}
}

// create adds a login in memory for the token with this digest, and returns the value of the cookie for the browser.
func (s *loginStore) create(token [sha256.Size]byte) (string, error) {
	id, err := randomHex(s.random)
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.makeRoom()
	now := s.now()
	s.byID[sha256.Sum256([]byte(id))] = &login{proof: proofOf(id, token), usedAt: now, expiresAt: now.Add(maxLoginAge)}
	return id, nil
}

// makeRoom removes expired logins. If maxLogins remain, makeRoom removes the login that expires first.
func (s *loginStore) makeRoom() {
	now := s.now()
	maps.DeleteFunc(s.byID, func(_ [sha256.Size]byte, x *login) bool { return !x.isValid(now) })
	if len(s.byID) >= maxLogins {
		delete(s.byID, slices.MinFunc(slices.Collect(maps.Keys(s.byID)), func(a, b [sha256.Size]byte) int {
			return s.byID[a].expiresAt.Compare(s.byID[b].expiresAt)
		}))
	}
}

// get returns the session of the login with this cookie. The second result is false for an unknown or expired login.
func (s *loginStore) get(cookie string) (*browserSession, bool) {
	id := sha256.Sum256([]byte(cookie))
	s.mu.Lock()
	defer s.mu.Unlock()
	x, ok := s.byID[id]
	if !ok || !x.isValid(s.now()) {
		return nil, false
	}
	return &browserSession{id, csrfOf(cookie), x.proof}, true
}

// recordUse stores the time of a use of a session, at most once in usedEvery. A failed write is not reported here,
// because the next login or logout reports such a failure.
func (s *loginStore) recordUse(sess *browserSession) {
	now := s.now()
	s.mu.Lock()
	x, ok := s.byID[sess.id]
	due := ok && now.Sub(x.usedAt) >= usedEvery
	if due {
		x.usedAt = now
	}
	s.mu.Unlock()
	if due {
		_ = s.save()
	}
}

// remove removes the login with this cookie from memory.
func (s *loginStore) remove(cookie string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byID, sha256.Sum256([]byte(cookie)))
}

// keepNotice stores a notice for the next page of a browser.
func (s *loginStore) keepNotice(sess *browserSession, n notice) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.byID[sess.id]; x != nil {
		x.notice = n
	}
}

// takeNotice returns the notice for a browser's next page, and removes the notice.
func (s *loginStore) takeNotice(sess *browserSession) notice {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.byID[sess.id]
	if x == nil { // the browser has logged out meanwhile
		return notice{}
	}
	pending := x.notice
	x.notice = notice{}
	return pending
}

// hasCSRF reports whether csrf is the CSRF token of the session.
func (s *browserSession) hasCSRF(csrf string) bool {
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
