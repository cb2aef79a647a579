package learn_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"precept/bandit/feedback"
	"precept/internal/sample"
	"precept/store"
)

// toolTurn returns turn n: the result of the previous tool call, and a new call or, in the last turn, a text.
func toolTurn(name string, n, last int, at time.Time, judged bool) *sample.Exchange {
	x := newExchange(tenantA, name, n, at)
	text := strings.Repeat("The build of the shed prints a line such as this one. ", 18) // about 1 KB
	if n == 1 {
		x.New = []json.RawMessage{json.RawMessage(`{"role":"user","content":"Paint the shed. ` + text + `"}`)}
	} else {
		x.FirstNew = 2*n - 2
		x.New = []json.RawMessage{
			json.RawMessage(fmt.Sprintf(`{"role":"assistant","content":null,"tool_calls":[{"id":"call_%s_%d","type":"function","function":{"name":"bash","arguments":"{\"command\":\"make wall-%d\"}"}}]}`, name, n-1, n-1)),
			json.RawMessage(fmt.Sprintf(`{"role":"tool","tool_call_id":"call_%s_%d","content":"%s"}`, name, n-1, text)),
		}
		x.Repeated = 1
		if judged {
			x.ResultJudgements = &sample.ResultJudgements{Results: 1}
		}
	}
	x.Reply = sample.Reply{ID: fmt.Sprintf("chatcmpl-%s-%d", name, n), InputTokens: 1200 * n, CachedTokens: 600 * n, OutputTokens: 90}
	if n == last {
		x.Reply.Text = "The shed is painted."
	} else {
		x.Reply.Calls = []sample.Call{{ID: fmt.Sprintf("call_%s_%d", name, n), Name: "bash", Args: fmt.Sprintf(`{"command":"make wall-%d"}`, n)}}
	}
	x.Lessons = []sample.Lesson{{Slug: "open-the-window", Arm: "open-the-window", State: "injected", Propensity: 0.9}}
	x.LatencyMS, x.FirstByteMS = 1200, 300
	return x
}

// BenchmarkClose measures closing sessions that are stored in SQLite, with about 1 KB per exchange. Every second
// session has a reward. The metric cpu-us/exchange is the CPU time of the whole process.
func BenchmarkClose(b *testing.B) {
	for _, turns := range []int{1, 10} {
		for _, judged := range []bool{false, true} {
			for _, cached := range []bool{false, true} {
				b.Run(fmt.Sprintf("turns=%d/judged=%v/cached=%v", turns, judged, cached), func(b *testing.B) { benchClose(b, turns, judged, cached) })
			}
		}
	}
}

// benchClose measures closing sessions. The flag judged stores the exchanges with judgements of their tool results, and
// cached keeps the exchanges in the cache.
func benchClose(b *testing.B, turns int, judged, cached bool) {
	b.Helper()
	const sessions = 400
	size := int64(100)
	if cached {
		size = 64 << 20
	}
	f := newFixture(b, withCache(b, size))
	var cpu time.Duration
	n := 0
	for b.Loop() {
		b.StopTimer()
		for range sessions {
			name := fmt.Sprint("s", n)
			n++
			id := f.beginSession(tenantA, name, newAssignment(n%2 == 0))
			for turn := 1; turn <= turns; turn++ {
				if !f.Offer(store.Turn{Exchange: toolTurn(name, turn, turns, f.clock.now(), judged), Size: 1000}) {
					b.Fatal("Offer(turn) = false, want true")
				}
			}
			f.Deliver(b.Context())
			if n%2 == 0 {
				f.postFeedback(tenantA, id, feedback.Entry{ID: "f", At: f.clock.now(), Source: feedback.SourceUser, Type: feedback.TypeScore, Score: 1, Tier: feedback.TierUser})
			}
		}
		f.deliverAndCorrect()
		f.clock.add(closeAge + time.Second)
		f.deliverAndCorrect()
		before, closed := cpuTime(b), f.Learner.Metrics.Closed.Load()
		b.StartTimer()
		f.closeDue(b.Context())
		b.StopTimer()
		cpu += cpuTime(b) - before
		if got := f.Learner.Metrics.Closed.Load() - closed; got != sessions {
			b.Fatalf("closed sessions: got %d, want %d", got, sessions)
		}
		b.StartTimer()
	}
	b.ReportMetric(float64(cpu.Microseconds())/float64(n*turns), "cpu-us/exchange")
	b.ReportMetric(float64(cpu.Microseconds())/float64(n), "cpu-us/session")
}

func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
