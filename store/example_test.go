package store_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"precept/bandit/feedback"
	"precept/internal/label"
	"precept/internal/sample"
	"precept/internal/session"
	"precept/store"
	"precept/store/sqlite"
)

// The example records a session with one turn, posts feedback on the session, and shows both with the archive.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	dir, err := os.MkdirTemp("", "store")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := sqlite.Open(ctx, sqlite.Options{Path: filepath.Join(dir, "precept.db"), Now: time.Now})
	if err != nil {
		log.Fatal(err)
	}
	s, err := store.Open(ctx, store.Options{
		Now: time.Now, Backend: db,
		Queue:   store.QueueOptions{MaxMemoryBytes: 1 << 20, Path: filepath.Join(dir, "outbox.db"), MaxBytes: 1 << 20},
		Content: store.ContentOptions{StoreContent: true},
		Hooks: store.Hooks{
			OnFailure: func(step label.Step, err error) { log.Println(step, err) },
			OnPanic:   func(step label.Step, value any) { log.Println(step, value) },
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()

	id := session.NamedID("acme", session.NamespaceSession, "fix-the-build")
	ses := s.Add(&session.Record{Identity: session.Identity{
		ID: id, Tenant: "acme", Agent: "coder", Name: "fix-the-build", Method: session.ByHeader, Started: time.Now(), Seen: time.Now(),
	}})
	x := &sample.Exchange{
		ID: "0192d3a0-0000-7000-8000-000000000001", Tenant: "acme", Agent: "coder", Session: id.String(), Turn: 1,
		At: time.Now(), Dialect: "chat", Status: 200, Outcome: sample.Complete,
	}
	begun := s.BeginTurn(x) // the request is sent
	x.New = []json.RawMessage{json.RawMessage(`{"role":"user","content":"Fix the build."}`)}
	x.Reply.Text = "The build is fixed."
	s.Offer(store.Turn{Exchange: x, Start: begun, Size: 1 << 10}) // the response is complete
	s.Release(ses, store.DecisionsChanged)
	posted, err := s.Rate(ctx, "acme", feedback.Post{SessionID: "fix-the-build", Entry: feedback.Entry{
		ID: "f1", At: time.Now(), Source: feedback.SourceUser, Type: feedback.TypeScore, Score: 1, Tier: feedback.TierUser,
	}})
	fmt.Println(posted.Session, posted.Status, err)

	s.Deliver(ctx) // a running store delivers every 50 ms by default
	shown, err := s.Archive(feedback.Definition{}).Transcript(ctx, "acme", "fix-the-build", 0)
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range shown.TurnItems[0].Entries {
		fmt.Printf("%s: %s\n", e.Kind, e.Text)
	}
	fmt.Println("reward", *shown.Rewarded.Value)

	cancel()
	if err := <-done; err != nil {
		log.Fatal(err)
	}
	if err := s.Close(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// fix-the-build joined <nil>
	// user: Fix the build.
	// assistant: The build is fixed.
	// reward 1
}
