package server

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"precept/configs"
	"precept/inject/backtest"
	"precept/inject/lesson"
	"precept/inject/meaning"
	"precept/internal/label"
	"precept/internal/session"
)

const (
	trafficInterval     = time.Hour   // pause between reads of the captured sessions
	fewSessionsInterval = time.Minute // pause while there are too few sessions
	likePollInterval    = time.Second // pause between checks for changes
)

// likenessWorker compiles the lessons for matching by likeness, that is, on words that resemble a lesson, so that no
// request waits for this work. The thresholds come from the traffic, that is, from the words in captured sessions.
// Until the traffic is read, lessons match only exactly.
type likenessWorker struct {
	lessons  *library
	reader   StoreReader // nil if the store is in memory
	config   func() *configs.Config
	lastRead atomic.Pointer[trafficRead] // nil means not read yet
}

type trafficRead struct {
	at      time.Time
	traffic *lesson.Traffic
}

// recentTraffic reads the captured sessions again after trafficInterval or, while there are too few sessions,
// fewSessionsInterval. The worker and the admin pages share the traffic.
func (l *likenessWorker) recentTraffic(ctx context.Context) (*lesson.Traffic, error) {
	now, every := l.lessons.now(), fewSessionsInterval
	r := l.lastRead.Load()
	if r != nil && r.traffic.HasEnoughSessions() {
		every = trafficInterval
	}
	if r != nil && now.Sub(r.at) < every {
		return r.traffic, nil
	}
	traffic, err := ReadTraffic(ctx, l.reader, now, nil)
	if err != nil {
		return nil, err
	}
	l.lastRead.Store(&trafficRead{now, traffic})
	return traffic, nil
}

// ReadTraffic reads the newest captured sessions, up to lesson.MaxLikeSessions. It calls visit, if not nil, with each
// session and the session's queries.
func ReadTraffic(ctx context.Context, reader StoreReader, now time.Time, visit func(*backtest.Session, []lesson.Query)) (*lesson.Traffic, error) {
	traffic := lesson.NewTraffic()
	err := newestFirst(now, func(since, until time.Time) error {
		return reader.EachSession(ctx, "", since, until, func(r session.Row, a session.SettledState) error {
			s, err := CapturedSession(ctx, reader, r, a)
			if err != nil || s == nil {
				return err
			}
			queries := backtest.Queries(s.Exchanges)
			traffic.Add(queries)
			if visit != nil {
				visit(s, queries)
			}
			if traffic.Sessions() >= lesson.MaxLikeSessions {
				return errStopScan
			}
			return nil
		})
	})
	if err != nil && !errors.Is(err, errStopScan) {
		return nil, err
	}
	return traffic, nil
}

// run compiles the book (the lessons in effect) whenever the book, the traffic or match.like_rate changes. If
// match.like is off, or if no lesson has like: true, run turns matching by likeness off, and reads no sessions.
func (l *likenessWorker) run(ctx context.Context) error {
	if l.reader == nil {
		return nil
	}
	var usedTraffic *lesson.Traffic
	var usedRate float64
	for ctx.Err() == nil {
		cfg, pause := l.config(), likePollInterval
		wanted := cfg.Match.Like == configs.LikeOn && l.lessons.book.Load().AsksForLikeness()
		if b := l.lessons.book.Load(); !wanted && b.MatchesByLikeness() {
			l.lessons.book.CompareAndSwap(b, b.WithoutLikeness())
		}
		if wanted {
			traffic, err := l.recentTraffic(ctx)
			switch {
			case err != nil && ctx.Err() == nil:
				l.lessons.failures.report(label.StepLessons, err)
				pause = fewSessionsInterval
			case traffic.HasEnoughSessions():
				l.lessons.useLikeness(traffic, cfg.Match.LikeRate, traffic != usedTraffic || cfg.Match.LikeRate != usedRate)
				usedTraffic, usedRate = traffic, cfg.Match.LikeRate
			}
		}
		_ = Sleep(ctx, pause) // ends with ctx
	}
	return nil
}

// useLikeness replaces the book with a copy that matches by likeness, unless nothing has changed. If the book is
// replaced during the compilation, the next call compiles the new book.
func (l *library) useLikeness(t *lesson.Traffic, rate float64, changed bool) {
	b := l.book.Load()
	if b.MatchesByLikeness() && !changed {
		return
	}
	next := b.WithLikeness(t, rate)
	if l.book.CompareAndSwap(b, next) && changed {
		l.log.Info("matching by likeness is on", "sessions", t.Sessions(), "windows", t.Windows())
	}
}

func newMeaning(cfg *configs.Config, likeWorker *likenessWorker, f *failures) (*meaning.Matcher, error) {
	embeddings := cfg.Match.Embeddings
	return meaning.New(meaning.Options{
		Client: meaning.Client{
			URL: cfg.AllUpstreams()[embeddings.Upstream], Model: embeddings.Model, Key: embeddings.APIKey.Reveal(),
			HTTP: &http.Client{
				Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment},
				CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // texts go only to the configured host
			},
		},
		Book: likeWorker.lessons.book.Load, Rate: func() float64 { return likeWorker.config().Match.LikeRate }, Wait: Sleep,
		Traffic: func(ctx context.Context) (*lesson.Traffic, error) {
			if likeWorker.reader == nil || likeWorker.config().Match.Like != configs.LikeOn {
				return nil, nil //nolint:nilnil // no traffic: nothing is embedded
			}
			return likeWorker.recentTraffic(ctx)
		},
		OnFailure: func(err error) { f.reportEvery(label.StepMeaning, time.Minute, err) },
	})
}
