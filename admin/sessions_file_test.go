package admin

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// startedIn returns a server on a data directory at a time. Each call is a start of precept.
func startedIn(t *testing.T, dir string, now time.Time, change func(*Options)) *fixture {
	t.Helper()
	var f *fixture
	f = newFixture(t, func(o *Options) {
		o.DataDir, o.Now = dir, func() time.Time {
			if f == nil {
				return now
			}
			return f.now
		}
		if change != nil {
			change(o)
		}
	})
	f.now = now
	return f
}

// statusWith returns the status of the overview for a browser with a cookie.
func (f *fixture) statusWith(t *testing.T, cookie *http.Cookie) int {
	t.Helper()
	return f.do(t, "GET", "/", func(r *http.Request) { r.AddCookie(cookie) }).StatusCode
}

// logOut logs a browser out.
func (f *fixture) logOut(t *testing.T, cookie *http.Cookie, csrf string) {
	t.Helper()
	f.do(t, "POST", "/logout", func(r *http.Request) { r.AddCookie(cookie); r.Header.Set(csrfHeader, csrf) })
	if got := f.statusWith(t, cookie); got != 401 {
		t.Errorf("after the logout the overview has status %d, want 401", got)
	}
}

// noon returns the time of the logins of the tests.
func noon() time.Time { return time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC) }

// A browser stays logged in over a restart, with its CSRF token and its role. The file has mode 0600 and holds neither
// the cookie nor the CSRF token, the admin token or its digest. A logout ends the login at once and for the next start.
func TestLoginOutlivesARestart(t *testing.T) {
	dir := t.TempDir()
	viewers := func(o *Options) { o.Access.Viewers = []string{"only-looks-at-the-figures"} }
	f := startedIn(t, dir, noon(), viewers)
	cookie, csrf := f.browser(t)
	other, _ := f.browser(t)
	reader := f.do(t, "GET", "/login?token=only-looks-at-the-figures", nil).Cookies()[0]
	file := filepath.Join(dir, sessionsFile)
	text, err := os.ReadFile(file)
	info, statErr := os.Stat(file)
	if err != nil || statErr != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the file of the logins: got %v, errors %v and %v, want mode 0600", info, err, statErr)
	}
	digest := sha256.Sum256([]byte(token))
	for name, secret := range map[string]string{"cookie": cookie.Value, "CSRF token": csrf, "admin token": token, "digest of the admin token": hex.EncodeToString(digest[:])} {
		if strings.Contains(string(text), secret) {
			t.Errorf("the file of the logins holds the %s, want no such text:\n%s", name, text)
		}
	}

	f = startedIn(t, dir, noon().Add(time.Hour), viewers)
	page := body(t, f.do(t, "GET", "/", func(r *http.Request) { r.AddCookie(cookie) }))
	if !strings.Contains(page, `name="csrf_token" value="`+csrf+`"`) {
		t.Error("after a restart the page has another CSRF token or none, want the token of the page before the restart")
	}
	if got := f.do(t, "GET", "/samples", func(r *http.Request) { r.AddCookie(reader) }).StatusCode; got != 403 {
		t.Errorf("after a restart the samples have status %d for a viewer, want 403", got)
	}
	f.logOut(t, cookie, csrf)

	f = startedIn(t, dir, noon().Add(2*time.Hour), viewers)
	if got := f.statusWith(t, cookie); got != 401 {
		t.Errorf("after a logout and a restart the overview has status %d, want 401", got)
	}
	if got := f.statusWith(t, other); got != 200 {
		t.Errorf("the other browser has status %d after a restart, want 200", got)
	}
	if f.now = noon().Add(sessionAge + time.Second); f.statusWith(t, other) != 401 {
		t.Error("a login is valid after its age, want the age counted from the login, not from the restart")
	}
}

// With another admin token, no stored login is valid.
func TestChangedTokenEndsStoredLogins(t *testing.T) {
	dir := t.TempDir()
	cookie, _ := startedIn(t, dir, noon(), nil).browser(t)
	f := startedIn(t, dir, noon(), func(o *Options) { o.Access.Tokens = []string{"another-token-of-the-operator"} })
	if got := f.statusWith(t, cookie); got != 401 {
		t.Errorf("with another token the overview has status %d, want 401", got)
	}
}

// Without a file that can be written, a login works until the restart, a logout holds, and the log says both. If the
// old file can be removed, the logout also holds after a restart.
func TestUnwritableFileOfLoginsIsLogged(t *testing.T) {
	for name, c := range map[string]struct {
		content string // a file in the directory that is in the place of the file of the logins
		want    string
	}{
		"not removable": {"x", "delete the file before the restart"},
		"removable":     {"", "the stored logins were deleted"},
	} {
		dir := t.TempDir()
		f := startedIn(t, dir, noon(), nil)
		if err := os.MkdirAll(filepath.Join(dir, sessionsFile, c.content), 0o700); err != nil {
			t.Fatal(err)
		}
		cookie, csrf := f.browser(t)
		if got := f.statusWith(t, cookie); got != 200 || !strings.Contains(f.log.String(), "a login cannot be stored and ends at the next restart") {
			t.Errorf("%s: the login has status %d and the log\n%s\nwant 200 and a line about the login", name, got, f.log)
		}
		f.logOut(t, cookie, csrf)
		if !strings.Contains(f.log.String(), c.want) {
			t.Errorf("%s: the log is\n%s\nwant a line with %q", name, f.log, c.want)
		}
		if entries, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil || len(entries) > 0 {
			t.Errorf("%s: the data directory has files %v, error %v, want no draft", name, entries, err)
		}
	}
}

// A damaged file of logins is renamed and logged with the remedy; precept starts, and logins work.
func TestDamagedFileOfLoginsIsSetAside(t *testing.T) {
	id := strings.Repeat("ab", 32)
	entry := `{"cookie_sha256":"` + id + `","token_hmac":"` + id + `","used":"2026-05-01T12:00:00Z","expires":"2026-05-02T00:00:00Z"}`
	for name, text := range map[string]string{
		"empty": "", "half": `{"version":1,"logins":[`, "another version": `{"version":2,"logins":[]}`,
		"short digest": `{"version":1,"logins":[{"cookie_sha256":"ab","token_hmac":"` + id + `"}]}`,
		"huge":         `{"version":1,"logins":[]}` + strings.Repeat(" ", maxSessionsBytes),
		"too many":     `{"version":1,"logins":[` + strings.Repeat(entry+",", maxSessions) + entry + `]}`,
	} {
		dir := t.TempDir()
		file := filepath.Join(dir, sessionsFile)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f := startedIn(t, dir, noon(), nil)
		kept, err := os.ReadFile(file + asideSuffix)
		if err != nil || string(kept) != text || strings.Count(f.log.String(), "level=WARN") != 1 || !strings.Contains(f.log.String(), "the stored logins are damaged") {
			t.Errorf("%s: got %d bytes, error %v and the log\n%s\nwant the renamed file and one line", name, len(kept), err, f.log)
		}
		cookie, _ := f.browser(t)
		if got := startedIn(t, dir, noon(), nil).statusWith(t, cookie); got != 200 {
			t.Errorf("%s: a login after the start has status %d after the next start, want 200", name, got)
		}
	}
}

// After the clock was set back, a stored login is not valid: its age is unknown.
func TestLoginFromTheFutureIsNotValid(t *testing.T) {
	for back, want := range map[time.Duration]int{30 * time.Second: 200, time.Hour: 401} {
		dir := t.TempDir()
		cookie, _ := startedIn(t, dir, noon(), nil).browser(t)
		f := startedIn(t, dir, noon().Add(-back), nil)
		if got := f.statusWith(t, cookie); got != want || strings.Contains(f.log.String(), "from the future") != (want == 401) {
			t.Errorf("%v before the login: got status %d and log %q, want %d, and a line if the login is refused", back, got, f.log, want)
		}
	}
}

// A login is from the future by its last use or by its end.
func TestLoginIsAliveBetweenItsUseAndItsEnd(t *testing.T) {
	now := noon()
	for name, c := range map[string]struct {
		used, until time.Duration // from now
		want        bool
	}{
		"in use":             {-time.Hour, time.Hour, true},
		"expired":            {-time.Hour, -time.Second, false},
		"used in the future": {time.Hour, 2 * time.Hour, false},
		"ends too late":      {0, sessionAge + time.Hour, false},
		"within the slack":   {clockSlack, sessionAge + clockSlack, true},
	} {
		if x := (&login{used: now.Add(c.used), until: now.Add(c.until)}); x.alive(now) != c.want {
			t.Errorf("%s: got alive = %v, want %v", name, !c.want, c.want)
		}
	}
}

// The time of the last use is stored at most once in ten minutes.
func TestLastUseIsStored(t *testing.T) {
	dir := t.TempDir()
	f := startedIn(t, dir, noon(), nil)
	cookie, _ := f.browser(t)
	for _, c := range []struct {
		after time.Duration
		used  string
	}{{9 * time.Minute, "12:00:00Z"}, {11 * time.Minute, "12:11:00Z"}, {12 * time.Minute, "12:11:00Z"}} {
		f.now = noon().Add(c.after)
		f.statusWith(t, cookie)
		text, err := os.ReadFile(filepath.Join(dir, sessionsFile))
		if err != nil || !strings.Contains(string(text), `"used":"2026-05-01T`+c.used) {
			t.Errorf("%v after the login: got file %s, error %v, want the last use at %s", c.after, text, err, c.used)
		}
	}
}

// After simultaneous logins and logouts, the file has the logins of the memory.
func TestSimultaneousLoginsAreStored(t *testing.T) {
	dir := t.TempDir()
	f := startedIn(t, dir, noon(), nil)
	var all sync.WaitGroup
	cookies := make([]*http.Cookie, 8)
	for i := range cookies {
		all.Go(func() {
			cookie := f.do(t, "GET", "/login?token="+url.QueryEscape(token), nil).Cookies()[0]
			if cookies[i] = cookie; i%2 == 1 {
				f.do(t, "POST", "/logout", func(r *http.Request) { r.AddCookie(cookie); r.Header.Set(csrfHeader, csrfOf(cookie.Value)) })
			}
		})
	}
	all.Wait()
	f = startedIn(t, dir, noon(), nil)
	for i, cookie := range cookies {
		if got, want := f.statusWith(t, cookie), []int{200, 401}[i%2]; got != want {
			t.Error(fmt.Sprintf("browser %d after the restart", i), "has status", got, "want", want)
		}
	}
}
