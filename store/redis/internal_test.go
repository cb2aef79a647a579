package redis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"precept/bandit/feedback"
	"precept/internal/session"
)

// At its beginning, each script checks the permissions for all commands that the regular expression scriptCall has
// found in it. A command that scriptCall does not find could be denied in the middle of the script.
func TestScriptCallFindsAllCalls(t *testing.T) {
	files, err := scriptFiles.ReadDir("lua")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := scriptFiles.ReadFile("lua/" + f.Name())
		if err != nil {
			t.Fatal(err)
		}
		calls := regexp.MustCompile(`\bcall\(`).FindAllIndex(text, -1)
		if got := len(scriptCall.FindAllIndex(text, -1)); got != len(calls) {
			t.Errorf("calls that scriptCall finds in %s: got %d, want %d (the command of each call must be a literal)", f.Name(), got, len(calls))
		}
	}
}

func TestBreakerAllowsOneProbePerPeriod(t *testing.T) {
	now := time.Unix(1000, 0)
	b := breaker{period: time.Second}
	for range 3 {
		if !b.allow(now) || b.isOpen(now) {
			t.Fatal("a closed breaker refused a call, or reported that it is open")
		}
	}
	b.recordFailure(now, ErrDown)
	if b.allow(now.Add(999*time.Millisecond)) || !b.isOpen(now) {
		t.Error("an open breaker permitted a call before the period ended")
	}
	now = now.Add(time.Second)
	if !b.allow(now) {
		t.Error("the breaker refused a probe after the period")
	}
	if b.allow(now) || b.allow(now.Add(999*time.Millisecond)) {
		t.Error("the breaker permitted two probes in one period")
	}
	b.recordFailure(now, ErrDown)
	if b.allow(now.Add(time.Millisecond)) {
		t.Error("the breaker permitted a call after a failed probe")
	}
	now = now.Add(time.Second)
	if !b.allow(now) {
		t.Error("the breaker refused a probe after the second period")
	}
	b.recordSuccess()
	for range 2 {
		if !b.allow(now) {
			t.Error("the breaker refused a call after a successful probe")
		}
	}
}

// If the breaker refuses a call, the error must contain the failure that opened the breaker, but must not count as a
// timeout.
func TestRefusedCallNamesTheLastFailure(t *testing.T) {
	b := breaker{period: time.Second}
	for _, kind := range []error{ErrDown, ErrTLS} {
		b.recordFailure(time.Unix(1000, 0), fmt.Errorf("%w: canary: %w", kind, context.DeadlineExceeded))
		err := b.refusal()
		if !errors.Is(err, kind) {
			t.Errorf(`refusal after "%v": error = %v, want %v`, kind, err, kind)
		}
		if errors.Is(err, context.DeadlineExceeded) {
			t.Errorf(`refusal after "%v": error = %v, want another error than context.DeadlineExceeded`, kind, err)
		}
		if !strings.Contains(err.Error(), "canary") {
			t.Errorf(`refusal after "%v": error = %q, want substring "canary"`, kind, err.Error())
		}
	}
	b.recordFailure(time.Unix(1000, 0), context.DeadlineExceeded)
	if err := b.refusal(); !errors.Is(err, ErrDown) {
		t.Errorf("refusal after a timeout: got error %v, want ErrDown", err)
	}
}

// A server that requires a password limits the size of commands from clients that have not logged in. The error must
// not count as permanent, because the value can be stored after a login.
func TestLargeValueWithoutLoginReturnsErrAuth(t *testing.T) {
	for _, text := range []string{"ERR Protocol error: unauthenticated bulk length", "ERR Protocol error: unauthenticated multibulk length"} {
		err := classifyReply(errors.New(text), text)
		if !errors.Is(err, ErrAuth) {
			t.Errorf("classifyReply(%q) error = %v, want ErrAuth", text, err)
		}
		if errors.Is(err, session.ErrInvalid) {
			t.Errorf("classifyReply(%q) error = %v, want another error than session.ErrInvalid", text, err)
		}
	}
}

// If Redis has reached its limit maxclients, it may close a new connection before precept has received the reason.
func TestClosedConnectionErrorNamesMaxclients(t *testing.T) {
	s := &Store{}
	s.hasConnected.Store(true)
	for _, cause := range []error{io.EOF, syscall.EPIPE} {
		if err := s.withRemedy(fmt.Errorf("%w: %w", ErrDown, cause)); !errors.Is(err, ErrDown) {
			t.Errorf("withRemedy(ErrDown with %v) error = %v, want ErrDown", cause, err)
		} else if !strings.Contains(err.Error(), "maxclients") {
			t.Errorf(`withRemedy(ErrDown with %v): error = %q, want substring "maxclients"`, cause, err.Error())
		}
	}
}

// A damaged value affects only the tenant to which it belongs. The error must not count as an outage, which would block
// other tenants.
func TestDamagedValueIsNotAnOutage(t *testing.T) {
	for _, text := range []string{
		"ERR hash value is not an integer script: 5a, on @user_script:3.",
		"ERR value is not a valid float",
		"ERR user_script:7: attempt to compare nil with number script: 5a, on @user_script:7.",
	} {
		err := classifyReply(errors.New(text), text)
		if !errors.Is(err, ErrCorrupt) {
			t.Errorf("classifyReply(%q) error = %v, want ErrCorrupt", text, err)
		}
		if errors.Is(err, session.ErrUnavailable) {
			t.Errorf("classifyReply(%q) error = %v, want another error than session.ErrUnavailable", text, err)
		}
	}
}

func TestOrderedStringsSortLikeNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.Int64(), 2, 20).Draw(t, "numbers")
		list = append(list, math.MinInt64, -1, 0, 1, math.MaxInt64)
		texts := make([]string, len(list))
		for i, n := range list {
			if texts[i] = encodeOrdered(n); decodeOrdered(texts[i]) != n {
				t.Fatalf("decodeOrdered(encodeOrdered(%d)): got %d, want the same number", n, decodeOrdered(texts[i]))
			}
		}
		slices.Sort(list)
		slices.Sort(texts)
		for i := range list {
			if decodeOrdered(texts[i]) != list[i] {
				t.Fatalf("number %d in string order: got %d, want %d", i, decodeOrdered(texts[i]), list[i])
			}
		}
	})
}

func TestKeysContainTenantNameHash(t *testing.T) {
	s := &Store{prefix: "precept", tags: shardTags()}
	s.shards.Store(maxShards)
	seen := map[string]string{}
	for _, name := range []string{"", "default", "a}b", "{x}", "a\x00b", "a:b", "a*", strings.Repeat("x", 1<<20)} {
		k := s.tenantKeyspace(maxShards, name, 7).base
		if len(k) != len("precept:{0123}:0123456789abcdef:") {
			t.Fatalf("key prefix of tenant %.20q = %d bytes, want %d", name, len(k), len("precept:{0123}:0123456789abcdef:"))
		}
		if strings.Count(k, "{") != 1 {
			t.Errorf(`key prefix of tenant %.20q: count of "{" = %d, want 1`, name, strings.Count(k, "{"))
		}
		if strings.Count(k, "}") != 1 {
			t.Errorf(`key prefix of tenant %.20q: count of "}" = %d, want 1`, name, strings.Count(k, "}"))
		}
		if other, ok := seen[k]; ok {
			t.Errorf("tenants %.20q and %.20q have the same key %q", name, other, k)
		}
		seen[k] = name
	}
}

func TestShardsAreEvenlySpacedOverTheSlots(t *testing.T) {
	if c := crc16("123456789"); c != 0x31c3 {
		t.Fatalf("crc16(123456789): got %x, want 31c3", c)
	}
	for r, tag := range shardTags() {
		if slot := int(crc16(tag) % 16384); slot/64 != r {
			t.Errorf("tag %q: slot/64 = %d, want %d", tag, slot/64, r)
		} else if len(tag) != 4 {
			t.Errorf("tag %q has %d bytes, want 4", tag, len(tag))
		}
	}
}

func TestUnpackRefusesGarbage(t *testing.T) {
	for _, v := range []string{"", "x", "\x00\x00\x00\xff{}", "\xff\xff\xff\xff", "\x00\x00\x00\x01{"} {
		if _, err := unpackExchange(v); !errors.Is(err, ErrCorrupt) {
			t.Errorf("unpackExchange(%q): got error %v, want ErrCorrupt", v, err)
		}
	}
	for _, v := range []string{"", "short", strings.Repeat("x", feedback.RankSize) + "{"} {
		if _, err := unpackEntry(v); !errors.Is(err, ErrCorrupt) {
			t.Errorf("unpackEntry(%q): got error %v, want ErrCorrupt", v, err)
		}
	}
	for _, v := range []string{"", "1", "x y", "1 short"} {
		if _, err := decodeSettledState(v); !errors.Is(err, ErrCorrupt) {
			t.Errorf("decodeSettledState(%q): got error %v, want ErrCorrupt", v, err)
		}
	}
}

// With the 30,000 keyspaces in this test, a merge that takes quadratic time would need minutes.
func TestWalkMergesManyKeyspaces(t *testing.T) {
	const keyspaces = 30_000
	s, err := Open(Options{URL: "redis://127.0.0.1:1", Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	random := rand.New(rand.NewPCG(3, 4))
	lists := map[string][]int64{}
	all := make([]keyspace, keyspaces)
	var want []int64
	for i := range all {
		all[i].base = strconv.Itoa(i)
		length := random.IntN(4)
		if i%1000 == 0 {
			length = 100
		}
		for range length {
			n := random.Int64N(1 << 40)
			lists[all[i].base] = append(lists[all[i].base], n)
			want = append(want, n)
		}
		slices.Sort(lists[all[i].base])
	}
	slices.Sort(want)
	calls := 0
	w := walker[int64]{store: s, readRefs: func(_ context.Context, _ client, cursors []*cursor, limit int) error {
		calls++
		for _, k := range cursors {
			list := lists[k.keyspace.base]
			n := min(len(list), limit)
			for _, major := range list[:n] {
				k.refs = append(k.refs, ref{position: newPosition(major)})
			}
			lists[k.keyspace.base] = list[n:]
		}
		return nil
	}}
	m := newMerger(all)
	var got []int64
	for {
		if err := w.readMore(t.Context(), nil, m); err != nil {
			t.Fatal(err)
		}
		r, ok := m.pop()
		if !ok {
			break
		}
		got = append(got, r.position.major)
	}
	if !slices.Equal(got, want) {
		t.Errorf("references from the walk: got %d, sorted = %v, want %d sorted references", len(got), slices.IsSorted(got), len(want))
	}
	if limit := keyspaces/256 + 1 + 30*100/8; calls > limit {
		t.Errorf("calls that the walk makes: got %d, want at most %d", calls, limit)
	}
}

func newPosition(n int64) position { return position{n, -1} }
