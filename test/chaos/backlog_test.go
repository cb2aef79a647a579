package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"precept/internal/label"
	"precept/internal/sample"
	"precept/internal/session"
	"precept/store"
	"precept/test/harness"
)

type failingBackend struct{ store.NullBackend }

func (failingBackend) Write(context.Context, session.Batch) error {
	return errors.New("the backend is down")
}

// fillOutbox writes n exchanges of about 8 KiB to an outbox, without delivering any of them to the backend.
func fillOutbox(t *testing.T, dir string, n int) {
	t.Helper()
	s, err := store.Open(t.Context(), store.Options{
		Now: time.Now, Backend: failingBackend{}, Content: store.ContentOptions{StoreContent: true},
		Queue: store.QueueOptions{MaxMemoryBytes: 64 << 20, Path: filepath.Join(dir, "outbox.db"), MaxBytes: 4 << 30},
		Hooks: store.Hooks{
			OnFailure: func(label.Step, error) {},
			OnPanic:   func(step label.Step, v any) { t.Errorf("step %s panicked: %v", step, v) },
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	text := strings.Repeat("one thing after the other ", 8<<10/26)
	for i := range n {
		id := session.NamedID("default", session.NamespaceSession, fmt.Sprint("s", i/50))
		x := &sample.Exchange{
			ID: fmt.Sprintf("%08x-0000-4000-8000-%012x", i, i), Tenant: "default", Agent: "coder", Session: id.String(), SessionName: fmt.Sprint("s", i/50),
			RequestID: fmt.Sprint("r", i), Turn: i%50 + 1, At: time.Now().UTC(), Dialect: "chat", Model: "m", Status: 200, Outcome: sample.Complete,
			New:   []json.RawMessage{json.RawMessage(`{"role":"user","content":"` + text + `"}`)},
			Reply: sample.Reply{ID: fmt.Sprint("chatcmpl-", i), Text: "It is done."},
		}
		harness.Eventually(t, "room for another exchange in the queue", func() bool { return s.Offer(store.Turn{Exchange: x, Size: 8 << 10}) })
	}
	stop()
	<-ended // the error depends on whether the context ends before the first write to the backend
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// If PRECEPT_CHAOS is set, the backlog has a size of 1 GiB.
func TestChaosBacklogIsDeliveredAfterStart(t *testing.T) {
	dir, model := t.TempDir(), harness.InstantModel(t)
	launch := func(dir string) (*harness.Process, time.Duration) {
		started := time.Now()
		p := harness.Launch(t, dir, nil, "--upstream", model.URL+"/v1").WaitUntilReady(dir)
		return p, time.Since(started)
	}
	p, emptyStart := launch(t.TempDir())
	p.Stop()
	n := harness.UsualOrChaos(2_000, 131_072)
	fillOutbox(t, dir, n)
	started := time.Now()
	before := harness.Doctor(t, dir)
	doctorTook := time.Since(started)
	if before.Spooled+before.Dropped["full"] < int64(n) || before.Stored != 0 {
		t.Fatalf(`doctor before the start: got %+v, want Spooled + Dropped["full"] >= %d and Stored = 0`, before, int64(n))
	}
	p, backlogStart := launch(dir)
	started = time.Now()
	for left := before.Spooled; left > 0; {
		last := left
		p.EventuallyEvery(300*time.Millisecond, fmt.Sprintf("fewer than %d rows in the outbox", last), func() bool {
			left = harness.Doctor(t, dir).Spooled
			return left < last
		})
	}
	t.Logf("%d exchanges: ready after %v (with an empty directory: %v), delivered %v later; doctor took %v", n, backlogStart, emptyStart, time.Since(started), doctorTook)
	p.Stop()
	if after := harness.Doctor(t, dir); after.Stored != before.Spooled || after.Admitted != before.Admitted {
		t.Errorf("doctor after the delivery: got %+v, want Stored and Admitted equal to Spooled and Admitted before the start: %+v", after, before)
	}
}
