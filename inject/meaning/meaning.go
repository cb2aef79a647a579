package meaning

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"github.com/dgraph-io/ristretto/v2"

	"precept/inject/backtest"
	"precept/inject/lesson"
	"precept/internal/sample"
	"precept/internal/session"
)

const (
	queueLength        = 256      // exchanges that wait for embeddings
	maxMessageBytes    = 32 << 10 // longer messages are skipped
	maxSentences       = 8        // sentences per exchange: half from the start, half from the end
	maxSamples         = 400      // captured sentences for the thresholds
	maxLessons         = 2000
	maxMatches         = 3        // per session
	vectorCacheBytes   = 32 << 20 // cache size
	maxMatchedSessions = 10_000   // sessions with stored matches
	matchTTL           = time.Hour
	refreshEvery       = time.Second // time between two checks for a changed book
	firstPause         = time.Second // pause after a failure; doubled each time
	longestPause       = time.Minute
)

const (
	thresholdMargin = 0.03 // added to the cosine that a share match.like_rate of the samples reaches
	minCosine       = 0.3  // lowest cosine that matches
)

// Options configure a Matcher; all are required.
type Options struct {
	Client    Client
	Book      func() *lesson.Book
	Traffic   func(ctx context.Context) (*lesson.Traffic, error)
	Rate      func() float64                                   // match.like_rate
	OnFailure func(err error)                                  // for failures and dropped exchanges; must not block
	Wait      func(ctx context.Context, d time.Duration) error // sleeps like time.Sleep, but ends with the context
}

// Matcher finds lessons by meaning. All methods are safe for concurrent use.
type Matcher struct {
	options Options
	queue   chan sample.Exchange
	vectors *ristretto.Cache[uint64, []float32]            // by text hash
	matches *ristretto.Cache[string, []lesson.Resemblance] // by session
	seed    maphash.Seed
	index   index // accessed by Run only
}

type index struct {
	book       *lesson.Book
	hash       string // hash of the book
	traffic    *lesson.Traffic
	rate       float64
	lessons    []*lesson.Lesson
	vectors    [][]float32
	thresholds []float32
}

// New returns a Matcher. The caller must close it.
func New(o Options) (*Matcher, error) {
	vectors, err := ristretto.NewCache(&ristretto.Config[uint64, []float32]{NumCounters: 100_000, MaxCost: vectorCacheBytes, BufferItems: 64, IgnoreInternalCost: true})
	if err != nil {
		return nil, fmt.Errorf("embedding cache: %w", err)
	}
	found, err := ristretto.NewCache(&ristretto.Config[string, []lesson.Resemblance]{NumCounters: 10 * maxMatchedSessions, MaxCost: maxMatchedSessions, BufferItems: 64, IgnoreInternalCost: true})
	if err != nil {
		vectors.Close()
		return nil, fmt.Errorf("cache for embedding matches: %w", err)
	}
	return &Matcher{options: o, queue: make(chan sample.Exchange, queueLength), vectors: vectors, matches: found, seed: maphash.MakeSeed()}, nil
}

// Close stops the caches' goroutines.
func (m *Matcher) Close() {
	m.vectors.Close()
	m.matches.Close()
}

var errQueueFull = errors.New("the queue of match.embeddings is full; precept matches this turn without embeddings")

// Offer queues a stored exchange's redacted words. Offer does not block; a full queue drops the exchange.
func (m *Matcher) Offer(x *sample.Exchange) {
	var words []json.RawMessage
	for _, item := range x.New {
		if len(item) <= maxMessageBytes {
			words = append(words, item)
		}
	}
	if len(words) == 0 {
		return
	}
	select {
	case m.queue <- sample.Exchange{Tenant: x.Tenant, Agent: x.Agent, Model: x.Model, Session: x.Session, Dialect: x.Dialect, New: words}:
	default:
		m.options.OnFailure(errQueueFull)
	}
}

// Matches returns the lessons that match a session's earlier words by meaning.
func (m *Matcher) Matches(id session.ID) []lesson.Resemblance {
	found, _ := m.matches.Get(id.String())
	return found
}

// Run embeds lessons and words until ctx ends. After a failure, Run pauses, and drops the words that arrived before or
// during the pause.
func (m *Matcher) Run(ctx context.Context) error {
	pause := firstPause
	for ctx.Err() == nil {
		err := m.processNext(ctx)
		switch {
		case err == nil:
			pause = firstPause
		case ctx.Err() == nil:
			m.options.OnFailure(err)
			m.emptyQueue()                 // do not keep words during the pause, because they may be deleted from the store
			_ = m.options.Wait(ctx, pause) // ends with ctx
			m.emptyQueue()
			pause = min(2*pause, longestPause)
		}
	}
	return nil
}

func (m *Matcher) emptyQueue() {
	for {
		select {
		case <-m.queue:
		default:
			return
		}
	}
}

// processNext handles a changed book, then at most one exchange.
func (m *Matcher) processNext(ctx context.Context) error {
	if err := m.refresh(ctx); err != nil {
		return err
	}
	wait, cancel := context.WithTimeout(ctx, refreshEvery)
	defer cancel()
	select {
	case x := <-m.queue:
		return m.compare(ctx, &x)
	case <-wait.Done():
		return nil
	}
}

func (m *Matcher) refresh(ctx context.Context) error {
	traffic, err := m.options.Traffic(ctx)
	if err != nil {
		return err
	}
	book, rate := m.options.Book(), m.options.Rate()
	if traffic == m.index.traffic && rate == m.index.rate && (book == m.index.book || book.Hash() == m.index.hash) {
		m.index.book = book
		return nil
	}
	next := index{book: book, hash: book.Hash(), traffic: traffic, rate: rate}
	if traffic.HasEnoughSessions() {
		if err := m.embedLessons(ctx, &next); err != nil {
			return err
		}
	}
	m.index = next
	return nil
}

func (m *Matcher) embedLessons(ctx context.Context, next *index) error {
	var texts []string
	for _, l := range next.book.Lessons() {
		if text := l.EmbeddingText(); text != "" && l.Trigger.ByLikeness && l.State.IsActive() && len(texts) < maxLessons {
			next.lessons, texts = append(next.lessons, l), append(texts, text)
		}
	}
	if len(texts) == 0 {
		return nil
	}
	var err error
	if next.vectors, err = m.embedAll(ctx, texts); err != nil {
		return err
	}
	samples, err := m.embedAll(ctx, next.traffic.Sentences(maxSamples))
	if err != nil {
		return err
	}
	for _, v := range next.vectors {
		next.thresholds = append(next.thresholds, threshold(v, samples, next.rate))
	}
	return nil
}

// threshold returns a lesson's minimum cosine. rate is the largest share of the samples that may reach the minimum.
func threshold(v []float32, samples [][]float32, rate float64) float32 {
	cosines := make([]float32, 0, len(samples))
	for _, s := range samples {
		cosines = append(cosines, dot(v, s))
	}
	slices.Sort(cosines)
	if n := len(cosines) - 1 - int(rate*float64(len(cosines))); n >= 0 {
		return max(minCosine, cosines[n]+thresholdMargin)
	}
	return minCosine
}

// compare compares an exchange's sentences with the lessons. As the session's match, it stores the lesson that exceeds
// its threshold by the largest margin.
func (m *Matcher) compare(ctx context.Context, x *sample.Exchange) error {
	if len(m.index.lessons) == 0 {
		return nil
	}
	var sentences []string
	queries := backtest.Queries([]sample.Exchange{*x})
	for i := range queries {
		queries[i].Tenant = x.Tenant
		for _, words := range queries[i].Words {
			sentences = append(sentences, lesson.Sentences(words)...)
		}
	}
	if n := len(sentences); n > maxSentences {
		sentences = slices.Delete(sentences, maxSentences/2, n-maxSentences/2)
	}
	vectors, err := m.embedAll(ctx, sentences)
	if err != nil {
		return err
	}
	best := lesson.Resemblance{Score: -1}
	for j, lessonVector := range m.index.vectors {
		l, limit := m.index.lessons[j], float64(m.index.thresholds[j])
		if slices.ContainsFunc(queries, func(q lesson.Query) bool { return !m.index.book.AdmitsQuery(l.Slug, &q) }) {
			continue
		}
		for _, v := range vectors {
			if score := float64(dot(v, lessonVector)); score >= limit && score-limit > best.Score-best.Threshold {
				best = lesson.Resemblance{Lesson: l, Score: score, Threshold: limit}
			}
		}
	}
	if best.Lesson == nil {
		return nil
	}
	old, _ := m.matches.Get(x.Session)
	if len(old) < maxMatches && !slices.ContainsFunc(old, func(r lesson.Resemblance) bool { return r.Lesson.Slug == best.Lesson.Slug }) {
		m.matches.SetWithTTL(x.Session, append(slices.Clone(old), best), 1, matchTTL)
	}
	return nil
}

func (m *Matcher) embedAll(ctx context.Context, texts []string) ([][]float32, error) {
	out := make([][]float32, len(texts))
	var missing []int
	for i, text := range texts {
		// ToValidUTF8 removes a character that the cut has split.
		texts[i] = strings.ToValidUTF8(text[:min(len(text), maxTextSize)], "")
		if v, ok := m.vectors.Get(m.key(texts[i])); ok {
			out[i] = v
			continue
		}
		missing = append(missing, i)
	}
	for part := range slices.Chunk(missing, maxBatch) {
		var request []string
		for _, i := range part {
			request = append(request, texts[i])
		}
		vectors, err := m.options.Client.embed(ctx, request)
		if err != nil {
			return nil, err
		}
		for n, i := range part {
			out[i] = vectors[n]
			m.vectors.Set(m.key(texts[i]), vectors[n], int64(4*len(vectors[n])))
		}
	}
	return out, nil
}

func (m *Matcher) key(text string) uint64 { return maphash.String(m.seed, text) }
