package admin

import (
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

// counting is a random source that never repeats a value.
type counting struct{ n uint64 }

func (c *counting) Read(b []byte) (int, error) {
	c.n++
	binary.BigEndian.PutUint64(b, c.n)
	return len(b), nil
}

func TestTokenIsMadeOnceAndKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	first, fresh, err := EnsureToken(dir, &counting{})
	if err != nil || !fresh || len(first) != 64 {
		t.Fatalf("got first %q, fresh %v, error %v, want no error, fresh = true and 64 entries in first", first, fresh, err)
	}
	info, err := os.Stat(filepath.Join(dir, TokenFile))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("got mode %v, error %v, want no error and mode 0o600", info.Mode(), err)
	}
	if err := os.Chmod(filepath.Join(dir, TokenFile), 0o644); err != nil {
		t.Fatal(err)
	}
	again, fresh, err := EnsureToken(dir, &counting{n: 99})
	if err != nil || fresh || again != first {
		t.Fatalf("the second start has the token %q, new: %v, error %v; want the first token", again, fresh, err)
	}
	if info, _ := os.Stat(filepath.Join(dir, TokenFile)); info.Mode().Perm() != 0o600 {
		t.Errorf("the mode of the token file is %v, want 0o600", info.Mode())
	}
	entries, _ := os.ReadDir(dir)
	if len(entries) != 1 {
		t.Errorf("these files remain: %v, want 1 in the list", entries)
	}
}

func TestEnsureTokenOfAnEmptyFile(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, TokenFile), []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	token, fresh, err := EnsureToken(dir, &counting{})
	if err != nil || !fresh || token == "" {
		t.Fatalf("an empty file must never be a token: %q, %v, %v", token, fresh, err)
	}
}

// In a directory without write permission EnsureToken returns a token and a warning.
func TestEnsureTokenWorksInReadOnlyDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	token, fresh, err := EnsureToken(filepath.Join(file, "data"), &counting{})
	if token == "" || !fresh || err == nil || !strings.Contains(err.Error(), "the next start makes a new token") {
		t.Fatalf(`got token %q, fresh %v, error %v, want a non-empty token, fresh = true, an error with "the next start makes a new token"`, token, fresh, err)
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, TokenFile), 0o700); err != nil {
		t.Fatal(err)
	}
	if token, _, err := EnsureToken(dir, &counting{}); token != "" || err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("an unreadable token file: got the token %q and the error %v, want no token and an error", token, err)
	}
}

func TestLoginLinkEscapesTheToken(t *testing.T) {
	if got := LoginLink("http://127.0.0.1:8081/", "a&b"); got != "http://127.0.0.1:8081/login?token=a%26b" {
		t.Errorf(`got %q, want "http://127.0.0.1:8081/login?token=a%%26b"`, got)
	}
}

// A flood from many addresses fills neither memory nor log.
func TestThrottleBoundsMemoryAndLog(t *testing.T) {
	now := time.Unix(1e9, 0)
	th := newThrottle(func() time.Time { return now })
	lines := 0
	for i := range 100_000 {
		now = now.Add(100 * time.Microsecond)
		f := th.countWrong(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}))
		if f.log {
			lines++
		}
		if i >= failuresOfAll && f.retryAfter <= 0 {
			t.Fatalf("failure %d is not throttled", i)
		}
	}
	if len(th.byIP) > throttledIPs {
		t.Errorf("%d addresses are remembered, want at most %d", len(th.byIP), throttledIPs)
	}
	if lines > 2 {
		t.Errorf("got %d log lines in ten seconds, want at most 2", lines)
	}
}

func TestThrottleDelayIsAtMostItsWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1e9, 0)
		th := newThrottle(func() time.Time { return now })
		for range rapid.IntRange(1, 300).Draw(t, "n") {
			now = now.Add(time.Duration(rapid.IntRange(0, 2000).Draw(t, "ms")) * time.Millisecond)
			f := th.countWrong(netip.AddrFrom4([4]byte{127, 0, 0, byte(rapid.IntRange(0, 3).Draw(t, "ip"))}))
			if f.retryAfter < 0 || f.retryAfter > throttleWindow {
				t.Fatalf("the delay of a refusal is %v, want 0 to %v", f.retryAfter, throttleWindow)
			}
		}
	})
}

func TestSessionsAreBounded(t *testing.T) {
	now := time.Unix(1e9, 0)
	s := newSessions(&counting{}, func() time.Time { return now })
	var first string
	ids := map[string]bool{}
	for i := range maxSessions + 10 {
		now = now.Add(time.Second)
		id, err := s.create([32]byte{})
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = id
		}
		ids[id] = true
	}
	if len(s.byID) != maxSessions {
		t.Errorf("%d sessions are kept, want %d", len(s.byID), maxSessions)
	}
	if _, ok := s.get(first); ok {
		t.Error("the oldest session is kept, want it removed for a new session")
	}
	now = now.Add(sessionAge)
	if _, err := s.create([32]byte{}); err != nil || len(s.byID) > 2 {
		t.Errorf("expired entries were not dropped: %d, %v", len(s.byID), err)
	}
}

func TestSessionsNeedRandomness(t *testing.T) {
	s := newSessions(strings.NewReader("short"), time.Now)
	if id, err := s.create([32]byte{}); err == nil {
		t.Fatalf("got the session id %q, want none", id)
	}
}

func TestHostNameHasNoPortAndNoCapitals(t *testing.T) {
	for host, want := range map[string]string{"A.b:1": "a.b", "[::1]:80": "::1", "[::1]": "::1", "::1": "::1", "h.": "h", "": "", "h:": "h"} {
		if got := hostName(host); got != want {
			t.Errorf("the host %q is read as %q, want %q", host, got, want)
		}
	}
}

func TestParseWindowReadsDaysAndDurations(t *testing.T) {
	for text, want := range map[string]time.Duration{"": 0, "all": 0, "24h": 24 * time.Hour, "30d": 720 * time.Hour} {
		if got, err := ParseWindow(text); err != nil || got != want {
			t.Errorf("%q: got %v, error %v, want no error and %v", text, got, err, want)
		}
	}
	for _, text := range []string{"d", "1.5d", "-1d", "-1h", "x", "99999999d"} {
		if got, err := ParseWindow(text); err == nil {
			t.Errorf("ParseWindow(%q) = %v, want an error", text, got)
		}
	}
}

// No probability is shown as 0% or 100%.
func TestChanceNeverShowsCertainty(t *testing.T) {
	for p, want := range map[float64]string{0: "< 1%", 0.004: "< 1%", 0.02: "2%", 0.5: "50%", 0.99: "99%", 0.997: "> 99%", 1: "> 99%"} {
		if got := chance(p); got != want {
			t.Errorf("the prefix %v is %s, want %s", p, got, want)
		}
	}
}

// Observation is called misleading only where it would be.
func TestGapWarnsOnlyOfMisleadingObservation(t *testing.T) {
	row := func(observed float64) *report.Row {
		return &report.Row{Effect: new(0.1), Lo: new(0.05), Hi: new(0.15), LOODelta: new(observed), LOOGap: new(observed - 0.1)}
	}
	if text := gap(row(0.11)); !strings.Contains(text, "the error is small") {
		t.Errorf(`got %q, want a text with "the error is small"`, text)
	}
	if text := gap(row(-0.2)); !strings.Contains(text, "wrong by −30.0: the difference is misleading") {
		t.Errorf(`got %q, want a text with "wrong by −30.0: the difference is misleading"`, text)
	}
}

// One item has no plural.
func TestUnitIsSingularForOne(t *testing.T) {
	loops := termOf("loops")
	if one, two := (stat{term: loops, value: "1"}).unit(), (stat{term: loops, value: "2"}).unit(); one != "loop" || two != "loops" {
		t.Errorf(`got one %q, two %q, want one = "loop" and two = "loops"`, one, two)
	}
}
