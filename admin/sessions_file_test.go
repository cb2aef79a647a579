package admin

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// startServerIn starts a server with the data directory dir. A second call with the same directory acts as a restart.
func startServerIn(t *testing.T, dir string, start time.Time, change func(*Options)) *fixture {
	t.Helper()
	var f *fixture
	f = newFixture(t, func(o *Options) {
		o.DataDir, o.Now = dir, func() time.Time {
			if f == nil {
				return start
			}
			return f.now
		}
		if change != nil {
			change(o)
		}
	})
	f.now = start
	return f
}

// statusWith requests the overview with the cookie, and returns the status of the response.
func (f *fixture) statusWith(t *testing.T, cookie *http.Cookie) int {
	t.Helper()
	return f.do(t, "GET", "/", func(r *http.Request) { r.AddCookie(cookie) }).StatusCode
}

// logOut logs out, and checks that the server then refuses the cookie.
func (f *fixture) logOut(t *testing.T, cookie *http.Cookie, csrf string) {
	t.Helper()
	f.do(t, "POST", "/logout", func(r *http.Request) { r.AddCookie(cookie); r.Header.Set(csrfHeader, csrf) })
	if got := f.statusWith(t, cookie); got != 401 {
		t.Errorf("overview after the logout: got status %d, want 401", got)
	}
}

func loginTime() time.Time { return time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC) }

// A login stays valid after a restart, because the server stores it in the logins file. The file has mode 0600, and
// contains neither a cookie, a CSRF token, an admin token nor the digest of an admin token.
func TestLoginSurvivesRestart(t *testing.T) {
	dir := t.TempDir()
	addViewer := func(o *Options) { o.Access.Viewers = []string{"only-looks-at-the-figures"} }
	f := startServerIn(t, dir, loginTime(), addViewer)
	cookie, csrf := f.logIn(t)
	otherBrowser, _ := f.logIn(t)
	viewer := f.do(t, "GET", "/login?token=only-looks-at-the-figures", nil).Cookies()[0]
	file := filepath.Join(dir, loginsFile)
	text, err := os.ReadFile(file)
	info, statErr := os.Stat(file)
	if statErr != nil {
		t.Fatal(statErr)
	}
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Fatalf("logins file: Perm = %v, want 0o600", info.Mode().Perm())
	}
	digest := sha256.Sum256([]byte(token))
	for name, secret := range map[string]string{"cookie": cookie.Value, "CSRF token": csrf, "admin token": token, "admin token digest": hex.EncodeToString(digest[:])} {
		if strings.Contains(string(text), secret) {
			t.Errorf("logins file: got the %s in it, want none; file:\n%s", name, text)
		}
	}

	f = startServerIn(t, dir, loginTime().Add(time.Hour), addViewer)
	page := body(t, f.do(t, "GET", "/", func(r *http.Request) { r.AddCookie(cookie) }))
	if !strings.Contains(page, `name="csrf_token" value="`+csrf+`"`) {
		t.Error("page after a restart: got no CSRF token or another one, want the CSRF token from before the restart")
	}
	if got := f.do(t, "GET", "/samples", func(r *http.Request) { r.AddCookie(viewer) }).StatusCode; got != 403 {
		t.Errorf("samples for a viewer after a restart: got status %d, want 403", got)
	}
	f.logOut(t, cookie, csrf)

	f = startServerIn(t, dir, loginTime().Add(2*time.Hour), addViewer)
	if got := f.statusWith(t, cookie); got != 401 {
		t.Errorf("overview after a logout and a restart: got status %d, want 401", got)
	}
	if got := f.statusWith(t, otherBrowser); got != 200 {
		t.Errorf("overview for the other browser after a restart: got status %d, want 200", got)
	}
	if f.now = loginTime().Add(maxLoginAge + time.Second); f.statusWith(t, otherBrowser) != 401 {
		t.Error("overview after the maximum age of a login: got no status 401, want 401, because the age counts from the login, not from the restart")
	}
}

func TestChangedTokenEndsStoredLogins(t *testing.T) {
	dir := t.TempDir()
	cookie, _ := startServerIn(t, dir, loginTime(), nil).logIn(t)
	f := startServerIn(t, dir, loginTime(), func(o *Options) { o.Access.Tokens = []string{"another-token-of-the-operator"} })
	if got := f.statusWith(t, cookie); got != 401 {
		t.Errorf("overview after a restart with another admin token: got status %d, want 401", got)
	}
}

// If the server cannot write the logins file, logins stay valid only until the restart. On a logout, the file could
// still contain the login. The server therefore deletes the file or, if this fails, asks the operator in the log to
// delete it.
func TestUnwritableLoginsFileIsLogged(t *testing.T) {
	for name, tc := range map[string]struct {
		entry   string // name of an entry in the directory that replaces the logins file, or "" for no entry
		wantLog string
	}{
		"directory with an entry": {"x", "delete the file before the restart"},
		"empty directory":         {"", "the stored logins were deleted"},
	} {
		dir := t.TempDir()
		f := startServerIn(t, dir, loginTime(), nil)
		if err := os.MkdirAll(filepath.Join(dir, loginsFile, tc.entry), 0o700); err != nil {
			t.Fatal(err)
		}
		cookie, csrf := f.logIn(t)
		if got := f.statusWith(t, cookie); got != 200 {
			t.Errorf("%s in place of the logins file = %d, want 200", name, got)
		} else if !strings.Contains(f.log.String(), "a login cannot be stored and ends at the next restart") {
			t.Errorf(`%s in place of the logins file: log = %q, want substring "a login cannot be stored and ends at the next restart"`, name, f.log.String())
		}
		f.logOut(t, cookie, csrf)
		if !strings.Contains(f.log.String(), tc.wantLog) {
			t.Errorf("%s in place of the logins file: got log after the logout\n%s\nwant a line with %q", name, f.log, tc.wantLog)
		}
		if entries, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil {
			t.Errorf("%s in place of the logins file: %v", name, err)
		} else if len(entries) > 0 {
			t.Errorf("%s in place of the logins file = %q, want none", name, entries)
		}
	}
}

func TestDamagedLoginsFileIsRenamed(t *testing.T) {
	id := strings.Repeat("ab", 32)
	entry := `{"cookie_sha256":"` + id + `","token_hmac":"` + id + `","used":"2026-05-01T12:00:00Z","expires":"2026-05-02T00:00:00Z"}`
	for name, text := range map[string]string{
		"empty": "", "truncated": `{"version":1,"logins":[`, "unknown version": `{"version":2,"logins":[]}`,
		"short digest":    `{"version":1,"logins":[{"cookie_sha256":"ab","token_hmac":"` + id + `"}]}`,
		"too many bytes":  `{"version":1,"logins":[]}` + strings.Repeat(" ", maxLoginsBytes),
		"too many logins": `{"version":1,"logins":[` + strings.Repeat(entry+",", maxLogins) + entry + `]}`,
	} {
		dir := t.TempDir()
		file := filepath.Join(dir, loginsFile)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f := startServerIn(t, dir, loginTime(), nil)
		kept, err := os.ReadFile(file + corruptSuffix)
		if err != nil {
			t.Fatalf("damaged logins file (%s): %v", name, err)
		}
		if string(kept) != text {
			t.Errorf("damaged logins file (%s): kept = %q, want %q", name, string(kept), text)
		}
		if strings.Count(f.log.String(), "level=WARN") != 1 {
			t.Errorf(`damaged logins file (%s): count of "level=WARN" = %d, want 1`, name, strings.Count(f.log.String(), "level=WARN"))
		}
		if !strings.Contains(f.log.String(), "the stored logins are damaged") {
			t.Errorf(`damaged logins file (%s): log = %q, want substring "the stored logins are damaged"`, name, f.log.String())
		}
		cookie, _ := f.logIn(t)
		if got := startServerIn(t, dir, loginTime(), nil).statusWith(t, cookie); got != 200 {
			t.Errorf("overview after a damaged logins file (%s), a login and a restart: got status %d, want 200", name, got)
		}
	}
}

// If the clock was set back by more than a minute, the age of a login is unknown, so the server does not accept the
// login any more.
func TestLoginFromTheFutureIsInvalid(t *testing.T) {
	for setBack, want := range map[time.Duration]int{30 * time.Second: 200, time.Hour: 401} { // status by how far the clock is set back
		dir := t.TempDir()
		cookie, _ := startServerIn(t, dir, loginTime(), nil).logIn(t)
		f := startServerIn(t, dir, loginTime().Add(-setBack), nil)
		if got := f.statusWith(t, cookie); got != want {
			t.Errorf("clock set back by %v = %d, want %d", setBack, got, want)
		} else if strings.Contains(f.log.String(), "have future dates") != (want == 401) {
			t.Errorf(`clock set back by %v: Contains(f.log.String(), "have future dates") = %v, want %v`, setBack, strings.Contains(f.log.String(), "have future dates"), (want == 401))
		}
	}
}

func TestLoginIsValidUntilItExpires(t *testing.T) {
	now := loginTime()
	for name, tc := range map[string]struct {
		used, until time.Duration // last use and end of the login, relative to now
		want        bool
	}{
		"in use":                 {-time.Hour, time.Hour, true},
		"expired":                {-time.Hour, -time.Second, false},
		"used in the future":     {time.Hour, 2 * time.Hour, false},
		"expires too late":       {0, maxLoginAge + time.Hour, false},
		"within the clock slack": {clockSlack, maxLoginAge + clockSlack, true},
	} {
		if x := (&login{usedAt: now.Add(tc.used), expiresAt: now.Add(tc.until)}); x.isValid(now) != tc.want {
			t.Errorf("login %q: isValid = %v, want %v", name, !tc.want, tc.want)
		}
	}
}

func TestLastUseIsStoredAtMostOnceInTenMinutes(t *testing.T) {
	dir := t.TempDir()
	f := startServerIn(t, dir, loginTime(), nil)
	cookie, _ := f.logIn(t)
	for _, tc := range []struct {
		after time.Duration // time between the login and a request
		used  string        // time of the last use that is stored after the request
	}{{9 * time.Minute, "12:00:00Z"}, {11 * time.Minute, "12:11:00Z"}, {12 * time.Minute, "12:11:00Z"}} {
		f.now = loginTime().Add(tc.after)
		f.statusWith(t, cookie)
		text, err := os.ReadFile(filepath.Join(dir, loginsFile))
		if err != nil {
			t.Fatalf("logins file after a request %v after the login: %v", tc.after, err)
		}
		if !strings.Contains(string(text), `"used":"2026-05-01T`+tc.used) {
			t.Errorf("logins file after a request %v after the login = %q, want substring %q", tc.after, string(text), `"used":"2026-05-01T`+tc.used)
		}
	}
}

func TestConcurrentLoginsAreStored(t *testing.T) {
	dir := t.TempDir()
	f := startServerIn(t, dir, loginTime(), nil)
	var all sync.WaitGroup // every second browser logs out again
	cookies := make([]*http.Cookie, 8)
	for i := range cookies {
		all.Go(func() {
			cookie := f.do(t, "GET", "/login?token="+url.QueryEscape(token), nil).Cookies()[0]
			if cookies[i] = cookie; i%2 == 1 {
				f.do(t, "POST", "/logout", func(r *http.Request) { r.AddCookie(cookie); r.Header.Set(csrfHeader, csrfToken(cookie.Value)) })
			}
		})
	}
	all.Wait()
	f = startServerIn(t, dir, loginTime(), nil)
	for i, cookie := range cookies {
		if got, want := f.statusWith(t, cookie), []int{200, 401}[i%2]; got != want {
			t.Errorf("browser %d after the restart: got status %d, want %d", i, got, want)
		}
	}
}
