package meaning_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"time"

	"precept/inject/lesson"
	"precept/inject/meaning"
	"precept/internal/session"
)

// The matcher searches in the background, so a lesson about boats matches a text about a yacht from the next turn on.
func ExampleMatcher() {
	api := httptest.NewServer(&embeddingServer{}) // similar embeddings for boats and yachts
	defer api.Close()
	traffic := lesson.NewTraffic()
	for i := range 200 {
		traffic.Add([]lesson.Query{{Words: []string{fmt.Sprint("answer question number ", i)}}})
	}
	book := lesson.NewBook([]*lesson.Lesson{{
		Slug: "moor-first", Title: "Moor the boat first.", State: lesson.Active, ContentHash: "h",
		Trigger: lesson.Trigger{Keywords: []string{"rent a boat"}, ByLikeness: true},
	}})
	m, err := meaning.New(meaning.Options{
		Client:    meaning.Client{URL: api.URL + "/v1", Model: "small", HTTP: api.Client()},
		Book:      func() *lesson.Book { return book },
		Rate:      func() float64 { return 0.005 },
		Traffic:   func(context.Context) (*lesson.Traffic, error) { return traffic, nil },
		OnFailure: func(error) {},
		Wait:      func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- m.Run(ctx) }()
	id := session.ID{1}
	for len(m.Matches(id)) == 0 {
		m.Offer(exchangeWithText(id, "We would like the yacht for Sunday."))
		time.Sleep(time.Millisecond)
	}
	fmt.Println(m.Matches(id)[0].Lesson.Slug)
	stop()
	<-ended
	// Output: moor-first
}
