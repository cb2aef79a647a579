package learn_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"precept/bandit"
	"precept/bandit/feedback"
	"precept/bandit/trial"
	"precept/internal/guard"
	"precept/internal/label"
	"precept/internal/sample"
	"precept/internal/session"
	"precept/learn"
	"precept/store/redis"
	"precept/store/storetest"
)

// shardedTraffic sends numbered sessions to a store. The content of a session depends only on its number.
type shardedTraffic struct {
	t           *testing.T
	first       int // number of the first session
	end         int // number of the last session plus 1
	text        string
	between     func(done int) // called before each batch
	part, parts int            // send sends only the batches part, part+parts, part+2*parts and so on, or all batches if parts is 0
}

const trafficBatch = 20

func trafficStart() time.Time { return time.Date(2031, 5, 6, 7, 8, 9, 0, time.UTC) }

// send sends the sessions. It repeats a call that fails because the store is unavailable, for at most a minute.
func (x shardedTraffic) send(s *redis.Store) {
	x.t.Helper()
	retry := func(name string, call func() error) {
		x.t.Helper()
		for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
			err := call()
			if err == nil {
				return
			}
			if !errors.Is(err, session.ErrUnavailable) {
				x.t.Fatalf("error from %s = %v, want session.ErrUnavailable", name, err)
			}
			if time.Now().After(end) {
				x.t.Fatalf("error from %s: After(end) = true, want false", name)
			}
		}
	}
	counters := bandit.New()
	ctx := x.t.Context()
	for from := x.first + x.part*trafficBatch; from < x.end; from += max(x.parts, 1) * trafficBatch {
		if x.between != nil {
			x.between(from)
		}
		var b session.Batch
		var steps []session.Settlement
		entries := map[session.ID][]feedback.Entry{}
		for n := from; n < min(from+trafficBatch, x.end); n++ {
			id, at := sessionID(fmt.Sprint("shard-", n)), trafficStart().Add(time.Duration(n)*time.Second)
			b.Rows = append(b.Rows, session.Row{Tenant: "default", ID: id, Started: at, Seen: at, Data: []byte("{}")})
			for turn := range 3 {
				b.Exchanges = append(b.Exchanges, sample.Exchange{ID: fmt.Sprint("x", n, "-", turn), Tenant: "default", Session: id.String(), At: at, Turn: turn, Outcome: sample.Complete, Reply: sample.Reply{Text: x.text}})
				b.Echoes = append(b.Echoes, session.Echo{Tenant: "default", Key: session.TenantEchoKey("default", fmt.Sprint("e", n, "-", turn)), ID: id, At: at})
			}
			b.Samples = append(b.Samples, session.StoredSample{Tenant: "default", Agent: "coder", ID: id, Sample: sample.Sample{ID: fmt.Sprint("m", n), CreatedAt: at}})
			entries[id] = []feedback.Entry{{ID: "f", At: at, Source: "user", Type: "score", Score: float64(n % 2), Tier: 1}}
			a := trial.Assignment{Decided: true, Category: "work", Day: trial.Day(at)}
			for k := range 3 {
				slug := fmt.Sprint("lesson-", (n+7*k)%20)
				a.Picks = append(a.Picks, trial.Pick{Slug: slug, Arm: trial.Arm(slug + "@1"), Eps: .5, Injected: (n+k)%2 == 0, Offset: .5, Centre: .5, Propensity: .5})
			}
			y := math.Mod(float64(n)*.37, 1)
			deltas := append(a.ClosingDeltas(), bandit.Contribution(&a, y, 1)...)
			steps = append(steps, session.Settlement{Tenant: "default", ID: id, FeedbackState: 4, To: session.SettledState{Version: 1, Rewarded: true, Reward: y, Tier: 1, AssignmentAtClose: []byte("{}")}, Deltas: deltas})
			counters.Add(deltas)
		}
		retry("write", func() error { return s.Write(ctx, b) })
		retry("feedback", func() error { _, err := s.AddFeedback(ctx, "default", entries); return err })
		retry("settle", func() error { _, err := s.Settle(ctx, steps); return err })
		if up := counters.RaiseMaxima(trafficStart()); len(up) > 0 {
			retry("raise", func() error { return s.RaiseMaxima(ctx, "default", up) })
		}
	}
}

func openStore(t *testing.T, url string) *redis.Store {
	t.Helper()
	s, err := redis.Open(redis.Options{URL: url, Now: time.Now, Timeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// readReportAndCounts returns the report, and as text the numbers of stored values. It fails the test if a sample is
// stored twice.
func readReportAndCounts(t *testing.T, s *redis.Store) (report, counts string) {
	t.Helper()
	now := func() time.Time { return trafficStart().Add(time.Hour) }
	learner, err := learn.Open(t.Context(), learn.Options{
		Now: now, Backend: s, Fleet: s, Guard: guard.New(guard.Options{Now: now}), Reward: feedback.Definition{CloseAfter: 24 * time.Hour, Tiers: []int{1, 2, 3}},
		OnFailure: func(step label.Step, err error) { t.Errorf("the learner's step %s failed: %v", step, err) },
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := learner.Report(t.Context(), learn.ReportQuery{Tenant: "default"})
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	stats, err := s.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	delete(stats, "bytes")
	seen := map[string]int{}
	if err := s.EachSample(t.Context(), "", time.Time{}, time.Time{}, func(m session.StoredSample) error { seen[m.Sample.ID]++; return nil }); err != nil {
		t.Fatal(err)
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("copies of sample %s in the store: got %d, want 1", id, n)
		}
	}
	return string(data), fmt.Sprint(stats, len(seen))
}

// While the test sends sessions to a Redis Cluster, it kills a node, and moves slots to other nodes. The report must be
// the same as from a single Redis server. Before the kill, the test also checks that the nodes have similar numbers of
// keys and similar memory use.
func TestClusterReportEqualsSingleServerReport(t *testing.T) {
	sessions := 600
	if n, err := strconv.Atoi(os.Getenv("PRECEPT_TEST_SHARD_SESSIONS")); err == nil {
		sessions = n
	}
	text := fmt.Sprintf("%02000d", 7)
	single := openStore(t, storetest.StartRedis(t).URL())
	shardedTraffic{t: t, end: sessions, text: text}.send(single)
	wantReport, wantCounts := readReportAndCounts(t, single)
	if len(wantReport) < 5000 {
		t.Fatalf("size of the single server's report: got %d bytes, want at least 5000, in the report %s", len(wantReport), wantReport)
	}
	for _, nodes := range []int{3, 6} {
		t.Run(fmt.Sprint(nodes, " nodes"), func(t *testing.T) {
			cluster := storetest.StartClusterNodes(t, nodes, "--appendonly", "yes", "--appendfsync", "always")
			emptyBytes := make([]float64, nodes)
			for i, n := range cluster.Nodes {
				emptyBytes[i] = usedMemory(t, n)
			}
			s := openStore(t, cluster.URL())
			var faults sync.WaitGroup
			shardedTraffic{t: t, end: sessions, text: text, between: func(done int) {
				switch done {
				case sessions / 2 / trafficBatch * trafficBatch:
					assertBalance(t, cluster, emptyBytes)
					faults.Go(func() {
						cluster.Nodes[1].Kill()
						time.Sleep(300 * time.Millisecond) // long enough for calls to fail while the node is down
						if err := cluster.Nodes[1].Start(); err != nil {
							t.Error(err)
						}
					})
				case sessions * 3 / 4 / trafficBatch * trafficBatch:
					faults.Wait()
					faults.Go(func() {
						if err := moveShards(cluster, cluster.Nodes[0], cluster.Nodes[2]); err != nil {
							t.Error(err)
						}
					})
				}
			}}.send(s)
			faults.Wait()
			gotReport, gotCounts := readReportAndCounts(t, s)
			if gotCounts != wantCounts {
				t.Errorf("numbers of stored values: got %s, want %s", gotCounts, wantCounts)
			}
			if gotReport != wantReport {
				t.Errorf("report from the cluster: got\n%s\nwant\n%s", gotReport, wantReport)
			}
		})
	}
}

// moveShards moves half of a node's shards to another node. Each shard is one slot, and has one key that ends in
// :all:t.
func moveShards(c *storetest.Cluster, from, to *storetest.Redis) error {
	list, err := from.Do("KEYS", "*:all:t")
	if err != nil {
		return err
	}
	keys, _ := list.([]any)
	for _, key := range keys[:len(keys)/2] {
		slot, err := from.Do("CLUSTER", "KEYSLOT", fmt.Sprint(key))
		if err == nil {
			err = c.MoveSlot(fmt.Sprint(slot), from, to)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// assertBalance fails the test unless each node's number of keys and its growth in memory are within 15% of the mean
// over all nodes. The argument emptyBytes has each node's memory use before the test.
func assertBalance(t *testing.T, c *storetest.Cluster, emptyBytes []float64) {
	t.Helper()
	keys, bytes := make([]float64, len(c.Nodes)), make([]float64, len(c.Nodes))
	for i, n := range c.Nodes {
		size, _ := n.MustDo(t, "DBSIZE").(int64)
		keys[i], bytes[i] = float64(size), usedMemory(t, n)-emptyBytes[i]
	}
	for unit, list := range map[string][]float64{"keys": keys, "bytes": bytes} {
		sum := 0.0
		for _, v := range list {
			sum += v
		}
		mean := sum / float64(len(list))
		for i, v := range list {
			if math.Abs(v/mean-1) > .15 {
				t.Errorf("node %d: got %.0f %s, want a number within 15%% of the mean %.0f (all nodes: %.0f)", i, v, unit, mean, list)
			}
		}
		t.Logf("%s by node: %.0f", unit, list)
	}
}

func usedMemory(t *testing.T, n *storetest.Redis) float64 {
	t.Helper()
	found := regexp.MustCompile(`used_memory:(\d+)`).FindStringSubmatch(fmt.Sprint(n.MustDo(t, "INFO", "memory")))
	v, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
