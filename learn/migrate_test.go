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

// migrateURL is set in the environment of a process that migrates a store for the test of its parent.
const migrateURL = "PRECEPT_TEST_MIGRATE_URL"

// TestMigrationChild migrates a store in a child process of TestReportDuringAMigration. In any other process the
// test is skipped.
func TestMigrationChild(t *testing.T) {
	url := os.Getenv(migrateURL)
	if url == "" {
		t.Skip("TestReportDuringAMigration runs this test")
	}
	_, err := openStore(t, url).Migrate(t.Context(), redis.Migration{Owner: "child", Progress: func(n int64) {
		fmt.Println("copied", n)
		time.Sleep(10 * time.Millisecond)
	}})
	t.Logf("Migrate returned the error %v", err)
}

// killedMigration starts a migration in a child process. killedMigration kills the child after the child has printed
// the given number of lines "copied" and ready returns true.
func killedMigration(t *testing.T, url string, lines int, ready func() bool) {
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

// A store in the old layout moves to shards while two replicas write. The migration is killed twice: during the copy,
// and while no replica can write. The counters, the numbers of stored values and the report equal those of a store
// without a migration, during the migration and afterwards.
func TestReportDuringAMigration(t *testing.T) {
	const sessions = 2000
	text := fmt.Sprintf("%0500d", 7)
	var batches atomic.Int64
	send := func(url string, from, to int, pause time.Duration, started func()) {
		var replicas sync.WaitGroup
		for part := range 2 {
			s := openStore(t, url)
			replicas.Go(func() {
				shardedTraffic{t: t, end: to, first: from, text: text, part: part, of: 2, between: func(int) {
					batches.Add(1)
					time.Sleep(pause)
				}}.send(s)
			})
		}
		started()
		replicas.Wait()
	}
	fresh := storetest.StartRedis(t)
	send(fresh.URL(), 0, sessions/2, 0, func() {})
	halfReport, halfNumbers := reportOf(t, openStore(t, fresh.URL()))
	send(fresh.URL(), sessions/2, sessions, 0, func() {})
	wantReport, wantNumbers := reportOf(t, openStore(t, fresh.URL()))

	server := storetest.StartRedis(t)
	server.Must(t, "SET", "precept:{precept}:shards", "1") // the layout of a release without shards
	checkReport := func(when, wantReport, wantNumbers string) {
		t.Helper()
		report, numbers := reportOf(t, openStore(t, server.URL()))
		if numbers != wantNumbers {
			t.Errorf("%s: the numbers of stored values are %s, want %s", when, numbers, wantNumbers)
		}
		if report != wantReport {
			t.Errorf("%s: the report is\n%s\nwant\n%s", when, report, wantReport)
		}
	}
	send(server.URL(), 0, sessions/2, 0, func() {})
	checkReport("before the migration", halfReport, halfNumbers)
	killedMigration(t, server.URL(), 5, func() bool { return true })
	checkReport("after a killed copy", halfReport, halfNumbers)
	endLease := func() { server.Must(t, "DEL", "precept:{precept}:lock:claim:migrate") }
	endLease()
	batches.Store(0)
	send(server.URL(), sessions/2, sessions, 300*time.Millisecond, func() {
		killedMigration(t, server.URL(), 1, func() bool {
			n, _ := server.Must(t, "EXISTS", "precept:{precept}:frozen").(int64)
			return n > 0
		})
		frozen := batches.Load()
		for batches.Load() < frozen+6 { // the freeze ends by itself, and the replicas write again
			time.Sleep(10 * time.Millisecond)
		}
		endLease()
		// On a busy machine the process may end its migration before the kill.
		ended := fmt.Sprint(server.Must(t, "GET", "precept:{precept}:shards")) == "256"
		done, err := openStore(t, server.URL()).Migrate(t.Context(), redis.Migration{Owner: "parent", Pause: time.Second})
		if err != nil || done.Sessions == 0 && !ended {
			t.Errorf("Migrate: got %+v and error %v, want some sessions and no error", done, err)
		}
		t.Logf("the migration ended with %+v, after %d batches before the first freeze", done, frozen)
		if n := batches.Load(); n >= sessions/2/trafficBatch {
			t.Errorf("%d batches were sent before the end of the migration, want fewer than all %d", n, sessions/2/trafficBatch)
		}
	})
	if n := fmt.Sprint(server.Must(t, "GET", "precept:{precept}:shards")); n != "256" {
		t.Errorf("the store has %s shards, want 256", n)
	}
	checkReport("after the migration", wantReport, wantNumbers)
}
