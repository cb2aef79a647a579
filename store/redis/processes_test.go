package redis_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"precept/bandit/trial"
	"precept/internal/session"
	"precept/store/redis"
	"precept/store/storetest"
)

// childURL is the name of an environment variable that contains the store URL for a child process.
const childURL = "PRECEPT_TEST_REDIS_URL"

// closeAll closes all due sessions, and returns how many of them this process has closed.
func closeAll(t *testing.T, s *redis.Store) (closed int) {
	t.Helper()
	for {
		rows, err := s.DueSessions(t.Context(), atSecond(1<<20), session.Row{}, 50)
		if err != nil {
			t.Fatal(err)
		}
		if len(rows) == 0 {
			return closed
		}
		var steps []session.Settlement
		for _, r := range rows {
			deltas := []trial.Delta{{Key: trial.Key{Scope: "arm", Field: "n"}, Value: 1}, {Key: trial.Key{Scope: r.Tenant, Field: "sum"}, Value: 10}}
			steps = append(steps, session.Settlement{Tenant: r.Tenant, ID: r.ID, Deltas: deltas})
		}
		done, err := s.Settle(t.Context(), steps)
		if err != nil {
			t.Fatal(err)
		}
		for _, ok := range done {
			if ok {
				closed++
			}
		}
	}
}

// TestProcessesChild is what the child processes run that the tests below start.
func TestProcessesChild(t *testing.T) {
	url := os.Getenv(childURL)
	if url == "" {
		t.Skip("this test runs only as a child process of other tests")
	}
	fmt.Printf("closed=%d\n", closeAll(t, open(t, url)))
}

func TestProcessesCloseEachSessionOnce(t *testing.T) {
	server := storetest.StartRedis(t)
	s := open(t, server.URL())
	const sessions = 1000
	var b session.Batch
	for n := range sessions {
		tenant := []string{testTenant, "other"}[n%2]
		b.Rows = append(b.Rows, session.Row{Tenant: tenant, ID: sessionID(n), Started: atSecond(n / 7), Seen: atSecond(n / 7), Data: []byte("{}")})
	}
	if err := s.Write(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	var outs [3]bytes.Buffer
	var children [3]*exec.Cmd
	for i := range children {
		children[i] = exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestProcessesChild$", "-test.v")
		children[i].Env = append(os.Environ(), childURL+"="+server.URL())
		children[i].Stdout, children[i].Stderr = &outs[i], &outs[i]
		if err := children[i].Start(); err != nil {
			t.Fatal(err)
		}
	}
	total := 0
	for i, child := range children {
		err := child.Wait()
		_, text, _ := strings.Cut(outs[i].String(), "closed=")
		text, _, _ = strings.Cut(text, "\n")
		n, parseErr := strconv.Atoi(text)
		if parseErr != nil {
			t.Fatalf("process %d: %v", i, parseErr)
		}
		if err != nil {
			t.Fatalf("process %d: %v", i, err)
		}
		total += n
	}
	if total != sessions {
		t.Errorf("sessions closed by all processes: got %d, want %d", total, sessions)
	}
	for _, tenant := range []string{testTenant, "other"} {
		got, err := s.Counters(t.Context(), tenant)
		want := []trial.Delta{{Key: trial.Key{Scope: "arm", Field: "n"}, Value: sessions / 2}, {Key: trial.Key{Scope: tenant, Field: "sum"}, Value: sessions / 2 * 10}}
		if err != nil {
			t.Fatalf("Counters(%s): %v", tenant, err)
		}
		if !slices.Equal(got, want) {
			t.Errorf("Counters(%s) = %+v, want %+v", tenant, got, want)
		}
	}
}

func TestKilledProcessCountsNoSessionPartially(t *testing.T) {
	server := storetest.StartRedis(t)
	s := open(t, server.URL())
	const sessions = 2000
	var b session.Batch
	for n := range sessions {
		b.Rows = append(b.Rows, session.Row{Tenant: testTenant, ID: sessionID(n), Started: atSecond(n), Seen: atSecond(n), Data: []byte("{}")})
	}
	if err := s.Write(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestProcessesChild$")
	child.Env = append(os.Environ(), childURL+"="+server.URL())
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "first settlement", func() error {
		if got, err := s.Counters(t.Context(), testTenant); err != nil || len(got) == 0 {
			return fmt.Errorf("no counters yet: %w", err)
		}
		return nil
	})
	_ = child.Process.Kill()
	_ = child.Wait()
	closeAll(t, s)
	got, err := s.Counters(t.Context(), testTenant)
	want := []trial.Delta{{Key: trial.Key{Scope: "arm", Field: "n"}, Value: sessions}, {Key: trial.Key{Scope: testTenant, Field: "sum"}, Value: sessions * 10}}
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, want) {
		t.Errorf("Counters after the kill = %+v, want %+v", got, want)
	}
}
