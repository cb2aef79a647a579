package learn_test

import (
	"flag"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"testing"
	"time"

	"precept/bandit"
	"precept/bandit/feedback"
	"precept/bandit/trial"
	"precept/internal/guard"
	"precept/internal/label"
	"precept/internal/session"
	"precept/learn"
	"precept/store/redis"
	"precept/store/storetest"
)

var readSessions = flag.Int("reads.sessions", 5000, "number of sessions that BenchmarkReads adds to the counters before it measures") //nolint:gochecknoglobals // a test flag

const readLessons = 2000

// BenchmarkReads measures what a replica reads from Redis for a tenant with 2,000 lessons in 256 shards.
func BenchmarkReads(b *testing.B) {
	server := storetest.StartRedis(b)
	open := func() *redis.Store {
		s, err := redis.Open(redis.Options{URL: server.URL(), Now: time.Now, Timeout: time.Minute})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = s.Close() })
		return s
	}
	writer, reader := open(), open()
	settled := 0
	settle := func(n int) {
		for ; n > 0; n -= min(n, 400) {
			var steps []session.Settlement
			for range min(n, 400) {
				steps = append(steps, lessonSettlement(settled))
				settled++
			}
			if _, err := writer.Settle(b.Context(), steps); err != nil {
				b.Fatal(err)
			}
		}
	}
	settle(*readSessions)
	start := func(s *redis.Store) *learn.Learner {
		now := func() time.Time { return trafficStart().Add(time.Hour) }
		l, err := learn.Open(b.Context(), learn.Options{
			Now: now, Backend: s, Fleet: s, Guard: guard.New(guard.Options{Now: now}), Reward: feedback.Definition{CloseAfter: 24 * time.Hour, Tiers: []int{1, 2, 3}},
			OnFailure: func(step label.Step, err error) { b.Errorf("the learner's step %s failed: %v", step, err) },
		})
		if err != nil {
			b.Fatal(err)
		}
		return l
	}
	l := start(reader)
	for _, n := range []int{0, 1, 100, 400} {
		b.Run(fmt.Sprintf("refresh/sessions=%d", n), func(b *testing.B) {
			measureReads(b, server, func() { settle(n) }, func() error { return l.Refresh(b.Context()) })
		})
	}
	b.Run("report", func(b *testing.B) {
		measureReads(b, server, func() {}, func() error {
			_, err := l.Report(b.Context(), learn.ReportQuery{Tenant: "default"})
			return err
		})
	})
	b.Run("counters", func(b *testing.B) {
		measureReads(b, server, func() {}, func() error { _, err := reader.Counters(b.Context(), "default"); return err })
	})
	b.Run("unused", func(b *testing.B) { // a replica's first use of a tenant that has no counters
		measureReads(b, server, func() {}, func() error { _, err := reader.Counters(b.Context(), "other"); return err })
	})
	b.Run("start", func(b *testing.B) { // a new replica reads all counters and builds the chooser
		var s *redis.Store
		measureReads(b, server, func() { s = open() }, func() error { start(s); return nil })
	})
}

func lessonSettlement(n int) session.Settlement {
	at := trafficStart().Add(time.Duration(n) * time.Millisecond)
	a := trial.Assignment{Decided: true, Category: "work", Day: trial.Day(at)}
	for k := range 3 {
		slug := fmt.Sprintf("lesson-%04d", (n*7+k*701)%readLessons)
		a.Picks = append(a.Picks, trial.Pick{Slug: slug, Arm: trial.Arm(slug + "@0123456789ab"), Eps: .5, Injected: (n+k)%2 == 0, Offset: .5, Centre: .5, Propensity: .5})
	}
	y := math.Mod(float64(n)*.37, 1)
	return session.Settlement{
		Tenant: "default", ID: sessionID(fmt.Sprint("reads-", n)), To: session.SettledState{Version: 1, Rewarded: true, Reward: y, Tier: 1, AssignmentAtClose: []byte("{}")},
		Deltas: append(a.ClosingDeltas(), bandit.Contribution(&a, y, 1)...),
	}
}

// measureReads measures calls of read. Before each call, it calls prepare, which it does not measure.
func measureReads(b *testing.B, server *storetest.Redis, prepare func(), read func() error) {
	b.Helper()
	var own, redis, sent float64
	b.ResetTimer()
	for range b.N {
		b.StopTimer()
		prepare()
		ownBefore, redisBefore, sentBefore := cpuTime(b).Seconds(), redisInfo(b, server, "used_cpu_user", "used_cpu_sys"), redisInfo(b, server, "total_net_output_bytes")
		b.StartTimer()
		if err := read(); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		own += cpuTime(b).Seconds() - ownBefore
		sent += redisInfo(b, server, "total_net_output_bytes") - sentBefore
		redis += redisInfo(b, server, "used_cpu_user", "used_cpu_sys") - redisBefore
	}
	n := float64(b.N)
	b.ReportMetric(own/n*1000, "cpu-ms/op")
	b.ReportMetric(redis/n*1000, "redis-cpu-ms/op")
	b.ReportMetric(sent/n/1000, "KB/op")
}

// redisInfo returns the sum of the named numeric fields in Redis's INFO.
func redisInfo(b *testing.B, server *storetest.Redis, fields ...string) (sum float64) {
	b.Helper()
	info := fmt.Sprint(server.MustDo(b, "INFO"))
	for _, f := range fields {
		found := regexp.MustCompile(f + `:([\d.]+)`).FindStringSubmatch(info)
		v, err := strconv.ParseFloat(found[1], 64)
		if err != nil {
			b.Fatal(err)
		}
		sum += v
	}
	return sum
}
