package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"precept/internal/sample"
	"precept/store/storetest"
	"precept/test/harness"
)

// exportedSamples exports all samples, and returns the ids of the exchanges in each sample by sample id.
func exportedSamples(t *testing.T, flags ...string) map[string][]string {
	t.Helper()
	out, stderr, code := harness.RunCommand(t, "", append([]string{"export"}, flags...)...)
	if code != harness.ExitOK {
		t.Fatalf("export: got exit code %d, want 0\n%s", code, stderr)
	}
	samples := map[string][]string{}
	for line := range strings.Lines(out) {
		var m struct {
			ID   string `json:"sample_id"`
			Meta struct {
				Events []string `json:"source_event_ids"`
			} `json:"meta"`
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("decode the exported line %s: %v", line, err)
		}
		if samples[m.ID] != nil {
			t.Errorf("sample %s is exported twice", m.ID)
		}
		samples[m.ID] = m.Meta.Events
	}
	return samples
}

// waitForSamples waits until each stored exchange is in exactly one exported sample.
func waitForSamples(t *testing.T, p *harness.Process, dir string, exchanges func() map[string][]sample.Exchange, flags ...string) {
	t.Helper()
	export := append([]string{"--data-dir", dir}, flags...)
	findMismatches := func() (unsampled, repeated []string) {
		samplesWith := map[string]int{} // by exchange id
		for _, events := range exportedSamples(t, export...) {
			for _, id := range events {
				samplesWith[id]++
			}
		}
		for _, list := range exchanges() {
			for i := range list {
				switch n := samplesWith[list[i].ID]; {
				case n == 0:
					unsampled = append(unsampled, list[i].ID)
				case n > 1:
					repeated = append(repeated, list[i].ID)
				}
			}
		}
		return unsampled, repeated
	}
	var d harness.Diagnosis
	var unsampled, repeated []string
	defer func() {
		if t.Failed() {
			t.Logf("%d exchanges in the outbox, %d in closed sessions without a sample; in no sample: %v; in several samples: %v", d.Spooled, d.Unsampled, unsampled, repeated)
		}
	}()
	// An export reads the samples page by page. If precept replaces the samples of a session during the export, the
	// output can contain both old and new samples.
	p.Eventually("all exchanges in samples", func() bool {
		d = harness.Doctor(t, dir, flags...)
		unsampled, repeated = findMismatches()
		return d.Spooled == 0 && d.Unsampled == 0 && len(unsampled)+len(repeated) == 0
	})
	if d := harness.Doctor(t, dir, flags...); d.SetAside.Total != 0 {
		t.Errorf("outbox files set aside: got %+v, want none", d.SetAside)
	}
}

func waitForClosed(t *testing.T, p *harness.Process, n int64) {
	t.Helper()
	until := p.Health().SinceStart.Closed + n
	p.Eventually(fmt.Sprint(n, " further sessions to close"), func() bool { return p.Health().SinceStart.Closed >= until })
}

// breakDuringLoad makes the store fail for a time while requests are sent. Sessions close before, during and after the
// outage.
func breakDuringLoad(t *testing.T, p *harness.Process, breakStore func() (repair func())) {
	t.Helper()
	l := harness.NewLoad(t, 10*time.Millisecond)
	ctx, stop := context.WithCancel(t.Context())
	wait := l.Start(ctx, p.DataURL, 4)
	for range harness.UsualOrChaos(1, 5) {
		waitForClosed(t, p, 1)
		repair := breakStore()
		p.WaitUntilDegraded()
		l.WaitForRequests(100)
		repair()
		p.WaitUntilRecovered()
	}
	waitForClosed(t, p, 1)
	stop()
	wait()
	t.Logf("%d answered", l.CountAnswered())
}

// The database stays locked for longer than a write waits.
func TestChaosLockedDatabaseLosesNoSample(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := harness.StartWithUpstream(t, dir, harness.InstantModel(t).URL, "--reward-close-after", "1s")
	breakDuringLoad(t, p, func() func() { return lockDatabase(t, dir) })
	waitForSamples(t, p, dir, func() map[string][]sample.Exchange { return harness.ExchangesInFile(t, dir) })
	p.Stop()
}

func TestChaosFrozenRedisLosesNoSample(t *testing.T) {
	t.Parallel()
	server, dir := storetest.StartRedis(t), t.TempDir()
	url := server.URL()
	p := harness.StartWithUpstream(t, dir, harness.InstantModel(t).URL, "--store-url", url, "--reward-close-after", "1s")
	breakDuringLoad(t, p, func() func() {
		server.Freeze(t)
		return func() { server.Thaw(t) }
	})
	waitForSamples(t, p, dir, func() map[string][]sample.Exchange { return harness.ExchangesInRedis(t, url) }, "--store-url", url)
	p.Stop()
}

func TestChaosKillsLoseNoSample(t *testing.T) {
	t.Parallel()
	dir, model := t.TempDir(), harness.InstantModel(t)
	for range harness.UsualOrChaos(3, 20) {
		p := harness.StartWithUpstream(t, dir, model.URL, "--reward-close-after", "1s")
		l := harness.NewLoad(t, 5*time.Millisecond)
		ctx, stop := context.WithCancel(t.Context())
		wait := l.Start(ctx, p.DataURL, 4)
		waitForClosed(t, p, 1)
		stop()
		p.Kill()
		wait()
	}
	p := harness.StartWithUpstream(t, dir, model.URL, "--reward-close-after", "1s")
	waitForSamples(t, p, dir, func() map[string][]sample.Exchange { return harness.ExchangesInFile(t, dir) })
	p.Stop()
}

func TestTurnsAfterCloseBecomeSamples(t *testing.T) {
	t.Parallel()
	dir, model := t.TempDir(), harness.InstantModel(t)
	for range 3 {
		p := harness.StartWithUpstream(t, dir, model.URL, "--reward-close-after", "1s")
		for range 2 {
			l := harness.NewLoad(t, 0) // sends the same twenty sessions in each round, to each process
			for range 20 {
				l.Send(t.Context(), p.DataURL)
			}
			l.CountAnswered()
			waitForSamples(t, p, dir, func() map[string][]sample.Exchange { return harness.ExchangesInFile(t, dir) })
		}
		p.Stop()
	}
	t.Log(len(exportedSamples(t, "--data-dir", dir)), "samples")
}
