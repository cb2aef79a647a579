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

// TestMigrationChild migrates a store in a child process for TestReportDuringAMigration.
func TestMigrationChild(t *testing.T) {
	url := os.Getenv(migrateURL)
	if url == "" {
		t.Skip("TestReportDuringAMigration runs this test")
	}
	_, err := openStore(t, url).Migrate(t.Context(), redis.MigrateOptions{Owner: "child", Progress: func(n int64) {
		fmt.Println("copied", n)
		time.Sleep(10 * time.Millisecond)
	}})
	t.Logf("Migrate: err = %v", err)
}

// runKilledMigration starts a child process that migrates a store. After the given number of progress lines, it waits
// until ready returns true, but at most 20 seconds, and kills the child.
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
		for read.Scan() { // the child must not block on a full pipe
		}
	}()
	for end := time.Now().Add(20 * time.Second); !ready() && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	_ = child.Process.Kill()
	_ = child.Wait()
}

// The migration is killed during the copy, and during the freeze, when no replica can write.
func TestReportDuringAMigration(t *testing.T) {
	const sessions = 2000
	text := fmt.Sprintf("%0500d", 7)
	const beforeKill, beforeEnd = 20, 40 // of 50 batches: sent until the child is killed, and until the migration ends
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
	server.MustDo(t, "SET", "precept:{precept}:shards", "1") // as in a release without shards
	checkReport := func(when, wantReport, wantCounts string) {
		t.Helper()
		report, counts := readReportAndCounts(t, openStore(t, server.URL()))
		if counts != wantCounts {
			t.Errorf("%s: stored value counts: got %s, want %s", when, counts, wantCounts)
		}
		if report != wantReport {
			t.Errorf("%s: report:\n%s\nwant\n%s", when, report, wantReport)
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
		for batches.Load() < frozen+6 { // after the freeze expires
			time.Sleep(10 * time.Millisecond)
		}
		endLease()
		// On a busy machine, the child may finish before the kill.
		ended := hasEnded()
		done, err := openStore(t, server.URL()).Migrate(t.Context(), redis.MigrateOptions{Owner: "parent", Pause: time.Second})
		close(migrated)
		if err != nil || done.Sessions == 0 && !ended {
			t.Errorf("Migrate = %+v, %v, want Sessions > 0 and no error", done, err)
		}
		t.Logf("migration: %+v; %d batches sent before the freeze", done, frozen)
	})
	if n := fmt.Sprint(server.MustDo(t, "GET", "precept:{precept}:shards")); n != "256" {
		t.Errorf("shards = %s, want 256", n)
	}
	checkReport("after the migration", wantReport, wantCounts)
}
