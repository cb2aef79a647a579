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
	browserSessionKey = "session" // echo context key: the request's *browserSession
	csrfHeader        = "X-CSRF-Token"
	csrfField         = "csrf_token"
)

const (
	maxLoginAge = 12 * time.Hour
	maxLogins   = 1000
)

// browserSession identifies a logged-in browser.
type browserSession struct {
	id    [sha256.Size]byte // digest of the cookie
	csrf  string            // HMAC over a constant, keyed by the cookie
	proof [sha256.Size]byte
}

// login is a browser's login, guarded by loginStore.mu.
type login struct {
	proof     [sha256.Size]byte // loginProof for cookie and token; a removed token ends the login
	usedAt    time.Time         // last known use, updated at most once in usedEvery
	expiresAt time.Time
	notice    notice // for the next page
}

const (
	usedEvery  = 10 * time.Minute // minimum time between updates of login.usedAt
	clockSlack = time.Minute      // how far the clock may be set back
)

// isValid reports whether a login is valid. A login from the future is invalid, because the clock was set back and the
// age is unknown.
func (l *login) isValid(now time.Time) bool {
	return !now.After(l.expiresAt) && !l.usedAt.After(now.Add(clockSlack)) && !l.expiresAt.After(now.Add(maxLoginAge+clockSlack))
}

// loginProof returns an HMAC of a token's digest, keyed by a cookie. Without the cookie, nobody can use the proof to
// check a guessed token.
func loginProof(cookie string, token [sha256.Size]byte) (proof [sha256.Size]byte) {
	m := hmac.New(sha256.New, []byte(cookie))
	m.Write([]byte("token "))
	m.Write(token[:])
	m.Sum(proof[:0])
	return proof
}

func csrfToken(cookie string) string {
	m := hmac.New(sha256.New, []byte(cookie))
	m.Write([]byte("csrf"))
	return hex.EncodeToString(m.Sum(nil))
}

// notice is the result of an action, with the lesson's address if any.
type notice struct{ text, href string }

// loginStore holds logins in memory and in a file, so they survive a restart.
type loginStore struct {
	random io.Reader
	now    func() time.Time
	path   string     // empty: in memory only
	saving sync.Mutex // held while the file is written; locked before mu

	mu   sync.Mutex
	byID map[[sha256.Size]byte]*login // by cookie digest
}

func newLoginStore(random io.Reader, now func() time.Time) *loginStore {
	return &loginStore{random: random, now: now, byID: map[[sha256.Size]byte]*login{}}
}

// create adds a login and returns the cookie for the browser.
func (s *loginStore) create(token [sha256.Size]byte) (string, error) {
	id, err := randomHex(s.random)
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.makeRoom()
	now := s.now()
	s.byID[sha256.Sum256([]byte(id))] = &login{proof: loginProof(id, token), usedAt: now, expiresAt: now.Add(maxLoginAge)}
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

func (s *loginStore) get(cookie string) (*browserSession, bool) {
	id := sha256.Sum256([]byte(cookie))
	s.mu.Lock()
	defer s.mu.Unlock()
	x, ok := s.byID[id]
	if !ok || !x.isValid(s.now()) {
		return nil, false
	}
	return &browserSession{id, csrfToken(cookie), x.proof}, true
}

// recordUse stores the time of a login's use, at most once in usedEvery. It ignores a failed write, because the next
// login or logout writes the file again and reports a failure.
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

func (s *loginStore) remove(cookie string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byID, sha256.Sum256([]byte(cookie)))
}

func (s *loginStore) keepNotice(sess *browserSession, n notice) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.byID[sess.id]; x != nil {
		x.notice = n
	}
}

func (s *loginStore) takeNotice(sess *browserSession) notice {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.byID[sess.id]
	if x == nil { // logged out in the meantime
		return notice{}
	}
	pending := x.notice
	x.notice = notice{}
	return pending
}

func (s *browserSession) hasCSRF(csrf string) bool {
	return subtle.ConstantTimeCompare([]byte(s.csrf), []byte(csrf)) == 1
}

func randomHex(random io.Reader) (string, error) {
	var b [32]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return "", fmt.Errorf("read random bytes: %w", err)
	}
	return hex.EncodeToString(b[:]), nil
}
