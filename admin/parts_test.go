package admin

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"precept/bandit/report"
)

// countingSource is a source of random bytes that never repeats a value.
type countingSource struct{ n uint64 }

func (c *countingSource) Read(b []byte) (int, error) {
	c.n++
	binary.BigEndian.PutUint64(b, c.n)
	return len(b), nil
}

func TestEnsureTokenCreatesTokenOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	first, isNew, err := EnsureToken(dir, &countingSource{})
	if err != nil {
		t.Fatal(err)
	}
	if !isNew {
		t.Fatal("first EnsureToken call: isNew = false, want true")
	}
	if len(first) != 64 {
		t.Fatalf("first EnsureToken call = %d bytes, want 64", len(first))
	}
	info, err := os.Stat(filepath.Join(dir, TokenFile))
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Fatalf("mode of the new token file: got %v, want 0o600", info.Mode())
	}
	if err := os.Chmod(filepath.Join(dir, TokenFile), 0o644); err != nil {
		t.Fatal(err)
	}
	second, isNew, err := EnsureToken(dir, &countingSource{n: 99})
	if err != nil {
		t.Fatal(err)
	}
	if isNew {
		t.Fatal("second EnsureToken call: isNew = true, want false")
	}
	if second != first {
		t.Fatalf("second EnsureToken call = %q, want %q", second, first)
	}
	if info, _ := os.Stat(filepath.Join(dir, TokenFile)); info.Mode().Perm() != 0o600 {
		t.Errorf("mode of the token file after the second call: got %v, want 0o600", info.Mode())
	}
	entries, _ := os.ReadDir(dir)
	if len(entries) != 1 {
		t.Errorf("got files %v in the directory, want only the token file", entries)
	}
}

func TestEnsureTokenReplacesAnEmptyFile(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, TokenFile), []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	token, isNew, err := EnsureToken(dir, &countingSource{})
	if err != nil {
		t.Fatal(err)
	}
	if !isNew {
		t.Fatal("empty token file: isNew = false, want true")
	}
	if token == "" {
		t.Fatal("empty token file: token is empty")
	}
}

// If EnsureToken cannot write the token file, it returns an error and a token that is valid until the next start. If
// EnsureToken cannot read the file, it returns no token.
func TestEnsureTokenReportsFileErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	token, isNew, err := EnsureToken(filepath.Join(file, "data"), &countingSource{})
	if token == "" {
		t.Fatal("data directory below a file: token is empty")
	}
	if !isNew {
		t.Fatal("data directory below a file: isNew = false, want true")
	}
	if err == nil {
		t.Fatal("data directory below a file: error = nil, want an error")
	}
	if !strings.Contains(err.Error(), "the next start makes a new token") {
		t.Fatalf(`data directory below a file: error = %q, want substring "the next start makes a new token"`, err.Error())
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, TokenFile), 0o700); err != nil {
		t.Fatal(err)
	}
	if token, _, err := EnsureToken(dir, &countingSource{}); token != "" {
		t.Fatalf(`directory in place of the token file = %q, want ""`, token)
	} else if err == nil {
		t.Fatal("directory in place of the token file: error = nil, want an error")
	} else if errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("directory in place of the token file: error = %v, want another error than fs.ErrNotExist", err)
	}
}

func TestLoginLinkEscapesTheToken(t *testing.T) {
	if got := LoginLink("http://127.0.0.1:8081/", "a&b"); got != "http://127.0.0.1:8081/login?token=a%26b" {
		t.Errorf(`LoginLink: got %q, want "http://127.0.0.1:8081/login?token=a%%26b"`, got)
	}
}

func TestThrottleLimitsMemoryAndLog(t *testing.T) {
	now := time.Unix(1e9, 0)
	th := newThrottle(func() time.Time { return now })
	lines := 0
	for i := range 100_000 {
		now = now.Add(100 * time.Microsecond)
		f := th.countFailure(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}))
		if f.shouldLog {
			lines++
		}
		if i >= maxTotalFailures && f.retryAfter <= 0 {
			t.Fatalf("failure %d: got retryAfter %v, want above 0", i, f.retryAfter)
		}
	}
	if len(th.byIP) > maxThrottledIPs {
		t.Errorf("addresses in the throttle: got %d, want at most %d", len(th.byIP), maxThrottledIPs)
	}
	if lines > 2 {
		t.Errorf("failures in ten seconds for which shouldLog is true: got %d, want at most 2", lines)
	}
}

func TestThrottleRetryAfterIsAtMostTheWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1e9, 0)
		th := newThrottle(func() time.Time { return now })
		for range rapid.IntRange(1, 300).Draw(t, "n") {
			now = now.Add(time.Duration(rapid.IntRange(0, 2000).Draw(t, "ms")) * time.Millisecond)
			f := th.countFailure(netip.AddrFrom4([4]byte{127, 0, 0, byte(rapid.IntRange(0, 3).Draw(t, "ip"))}))
			if f.retryAfter < 0 || f.retryAfter > throttleWindow {
				t.Fatalf("retryAfter = %v, want 0 to %v", f.retryAfter, throttleWindow)
			}
		}
	})
}

func TestLoginStoreKeepsMaxLogins(t *testing.T) {
	var tokenDigest [sha256.Size]byte
	now := time.Unix(1e9, 0)
	s := newLoginStore(&countingSource{}, func() time.Time { return now })
	var first string
	for i := range maxLogins + 10 {
		now = now.Add(time.Second)
		id, err := s.create(tokenDigest)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = id
		}
	}
	if len(s.byID) != maxLogins {
		t.Errorf("stored logins: got %d, want %d", len(s.byID), maxLogins)
	}
	if _, ok := s.get(first); ok {
		t.Error("oldest login: got it still stored, want it removed in favour of a newer login")
	}
	now = now.Add(maxLoginAge)
	if _, err := s.create(tokenDigest); err != nil {
		t.Error(err)
	} else if len(s.byID) > 2 {
		t.Errorf("after the older logins have expired: byID = %+v, want at most 2 items", s.byID)
	}
}

func TestLoginNeedsRandomness(t *testing.T) {
	s := newLoginStore(strings.NewReader("short"), time.Now)
	if id, err := s.create([sha256.Size]byte{}); err == nil {
		t.Fatalf("login with a source of only 5 random bytes: got session id %q, want an error", id)
	}
}

func TestHostNameIsLowerCaseWithoutPort(t *testing.T) {
	for host, want := range map[string]string{"A.b:1": "a.b", "[::1]:80": "::1", "[::1]": "::1", "::1": "::1", "h.": "h", "": "", "h:": "h"} {
		if got := hostName(host); got != want {
			t.Errorf("hostName(%q) = %q, want %q", host, got, want)
		}
	}
}

func TestParseWindowReadsDaysAndDurations(t *testing.T) {
	for text, want := range map[string]time.Duration{"": 0, "all": 0, "24h": 24 * time.Hour, "30d": 720 * time.Hour} {
		if got, err := ParseWindow(text); err != nil {
			t.Errorf("ParseWindow(%q): %v", text, err)
		} else if got != want {
			t.Errorf("ParseWindow(%q) = %v, want %v", text, got, want)
		}
	}
	for _, text := range []string{"d", "1.5d", "-1d", "-1h", "x", "99999999d"} {
		if got, err := ParseWindow(text); err == nil {
			t.Errorf("ParseWindow(%q) = %v, want an error", text, got)
		}
	}
}

func TestChanceTextNeverShowsCertainty(t *testing.T) {
	for p, want := range map[float64]string{0: "< 1%", 0.004: "< 1%", 0.02: "2%", 0.5: "50%", 0.99: "99%", 0.997: "> 99%", 1: "> 99%"} {
		if got := chanceText(p); got != want {
			t.Errorf("chanceText(%v) = %q, want %q", p, got, want)
		}
	}
}

// differenceNote compares the effect with the difference between the mean reward of the sessions with the lesson and
// that of all other sessions. LOODelta is this difference, and LOOGap is the difference minus the effect.
func TestDifferenceNoteWarnsOnlyOutsideTheInterval(t *testing.T) {
	row := func(difference float64) *report.Row {
		return &report.Row{Effect: new(0.1), Lo: new(0.05), Hi: new(0.15), LOODelta: new(difference), LOOGap: new(difference - 0.1)}
	}
	if text := differenceNote(row(0.11)); !strings.Contains(text, "here the error is small") {
		t.Errorf(`note on a difference inside the interval: got %q, want it to contain "here the error is small"`, text)
	}
	if text := differenceNote(row(-0.2)); !strings.Contains(text, "wrong by −30.0 points: the difference is misleading") {
		t.Errorf(`note on a difference outside the interval: got %q, want it to contain "wrong by −30.0 points: the difference is misleading"`, text)
	}
}

func TestStatUnitIsSingularForOne(t *testing.T) {
	loops := glossaryTerm("loops")
	if one, two := (stat{term: loops, value: "1"}).unit(), (stat{term: loops, value: "2"}).unit(); one != "loop" {
		t.Errorf(`units for 1 and 2: one = %q, want "loop"`, one)
	} else if two != "loops" {
		t.Errorf(`units for 1 and 2: two = %q, want "loops"`, two)
	}
}
