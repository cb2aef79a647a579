package learn_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"precept/store/redis"
	"precept/store/storetest"
)

const migrateURL = "PRECEPT_TEST_MIGRATE_URL"

// TestMigrationChild runs in a child process that TestReportDuringAMigration starts, and migrates a store.
func TestMigrationChild(t *testing.T) {
	url := os.Getenv(migrateURL)
	if url == "" {
		t.Skip("this test runs only as a child process of TestReportDuringAMigration")
	}
	_, err := openStore(t, url).Migrate(t.Context(), redis.MigrateOptions{Owner: "child", Progress: func(n int64) {
		fmt.Println("copied", n)
		time.Sleep(10 * time.Millisecond)
	}})
	t.Logf("error from Migrate: %v", err)
}

// runKilledMigration starts a child process that migrates a store. After the child has printed the given number of
// progress lines, runKilledMigration waits until ready returns true, but at most 20 seconds, and then kills the child.
func runKilledMigration(t *testing.T, url string, lines int, ready func() bool) {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestMigrationChild$", "-test.v")
	child.Env = append(os.Environ(), migrateURL+"="+url)
	out, err := child.StdoutPipe()
	if err == nil {
		err = child.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	read := bufio.NewScanner(out)
	for n := 0; n < lines && read.Scan(); {
		if strings.HasPrefix(read.Text(), "copied") {
			n++
		}
	}
	go func() {
		for read.Scan() { // read the rest, so that the child does not block on a full pipe
		}
	}()
	for end := time.Now().Add(20 * time.Second); !ready() && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	_ = child.Process.Kill()
	_ = child.Wait()
}

// The test kills a migration while it copies data, and another one during the freeze, in which no replica can write.
// Traffic continues during the migrations, and at the end the report must be complete.
func TestReportDuringAMigration(t *testing.T) {
	const sessions = 2000
	text := fmt.Sprintf("%0500d", 7)
	const beforeKill, beforeEnd = 20, 40 // how many of the 50 batches are sent before the child is killed, and before the migration ends
	var batches atomic.Int64
	killed, migrated := make(chan struct{}), make(chan struct{})
	send := func(url string, from, to int, pause time.Duration, started func()) {
		var replicas sync.WaitGroup
		for part := range 2 {
			s := openStore(t, url)
			replicas.Go(func() {
				shardedTraffic{t: t, end: to, first: from, text: text, part: part, parts: 2, between: func(int) {
					if n := batches.Add(1); pause > 0 && n > beforeEnd {
						<-migrated
					} else if pause > 0 && n > beforeKill {
						<-killed
					}
					time.Sleep(pause)
				}}.send(s)
			})
		}
		started()
		replicas.Wait()
	}
	reference := storetest.StartRedis(t)
	send(reference.URL(), 0, sessions/2, 0, func() {})
	halfReport, halfCounts := readReportAndCounts(t, openStore(t, reference.URL()))
	send(reference.URL(), sessions/2, sessions, 0, func() {})
	wantReport, wantCounts := readReportAndCounts(t, openStore(t, reference.URL()))

	server := storetest.StartRedis(t)
	server.MustDo(t, "SET", "precept:{precept}:shards", "1") // as in a release that did not use shards
	checkReport := func(when, wantReport, wantCounts string) {
		t.Helper()
		report, counts := readReportAndCounts(t, openStore(t, server.URL()))
		if counts != wantCounts {
			t.Errorf("%s: numbers of stored values: got %s, want %s", when, counts, wantCounts)
		}
		if report != wantReport {
			t.Errorf("%s: report: got\n%s\nwant\n%s", when, report, wantReport)
		}
	}
	send(server.URL(), 0, sessions/2, 0, func() {})
	checkReport("before the migration", halfReport, halfCounts)
	runKilledMigration(t, server.URL(), 5, func() bool { return true })
	checkReport("after a killed copy", halfReport, halfCounts)
	hasEnded := func() bool { return fmt.Sprint(server.MustDo(t, "GET", "precept:{precept}:shards")) == "256" }
	endLease := func() { server.MustDo(t, "DEL", "precept:{precept}:lock:claim:migrate") }
	endLease()
	batches.Store(0)
	send(server.URL(), sessions/2, sessions, 300*time.Millisecond, func() {
		runKilledMigration(t, server.URL(), 1, func() bool {
			n, _ := server.MustDo(t, "EXISTS", "precept:{precept}:frozen").(int64)
			return n > 0 || hasEnded()
		})
		close(killed)
		frozen := batches.Load()
		for batches.Load() < frozen+6 { // until batches are stored again because the freeze has expired
			time.Sleep(10 * time.Millisecond)
		}
		endLease()
		// On a busy machine, the child may finish before the test kills it.
		ended := hasEnded()
		done, err := openStore(t, server.URL()).Migrate(t.Context(), redis.MigrateOptions{Owner: "parent", Pause: time.Second})
		close(migrated)
		if err != nil || done.Sessions == 0 && !ended {
			t.Errorf("Migrate after the kills: got %+v, error %v, want Sessions > 0 and no error", done, err)
		}
		t.Logf("migration: %+v; %d batches sent before the freeze", done, frozen)
	})
	if n := fmt.Sprint(server.MustDo(t, "GET", "precept:{precept}:shards")); n != "256" {
		t.Errorf("number of shards after the migration: got %s, want 256", n)
	}
	checkReport("after the migration", wantReport, wantCounts)
}
