package admin

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"time"

	"precept/bandit/feedback"
	"precept/bandit/report"
	"precept/inject/backtest"
	"precept/inject/lesson"
	"precept/learn"
	"precept/store"
)

// Options configure an admin server. Functions must be safe for concurrent calls.
type Options struct {
	Access     Access
	Address    Address
	Read       Readers
	Write      Writers
	Program    Program
	TrueEffect func(slug string) (float64, bool) // true effects on the reward in the demo; else nil
	DataDir    string                            // directory for the audit log and the logins; "" keeps both in memory
	Random     io.Reader                         // for session, request and view ids
	Now        func() time.Time
	Log        *slog.Logger
}

// Address holds both listeners' addresses, used to check requests and to build links.
type Address struct {
	BasePath string // prefix added by a proxy for the admin listener, such as /precept
	Listen   string
	DataURL  string // base URL for agents
}

// Readers read data for pages and the API.
type Readers struct {
	Report  Reporter
	Library Library
	Survey  Surveyor
	Archive Archive
	Export  Exporter
	Rules   RulesReader
}

// Writers change stored data, such as lessons and saved views.
type Writers struct {
	Lessons LessonChanger
	Rate    Rater
	Forget  Forgetter
	Import  Importer
	Notes   Notes
}

// Program reports the running program's state.
type Program struct {
	Figures func(context.Context) []Figure // summary figures on the overview and the health page
	Health  func(context.Context) Health
	Prices  func() Prices
	Tenants func(context.Context) ([]string, error) // tenants with stored data; nil: unknown
	Ready   func() (string, error)                  // returns a line about the state, or an error if precept is not ready
	Metrics http.Handler
}

// Access holds the tokens and the host names. A reload replaces the whole value.
type Access struct {
	Tokens        []string // operators' tokens: plain text, or sha256:<hex>
	Viewers       []string // viewers' tokens: lessons and statistics only
	Hosts         []string // accepted in a Host header, besides localhost and Address.Listen
	PublicMetrics bool
}

// errNoToken is the error for an Access with no token or an empty one.
var errNoToken = errors.New("no admin token is set; set PRECEPT_ADMIN_TOKEN or admin.tokens")

// ReportQuery selects a report.
type ReportQuery struct {
	Tenant      string
	Window      time.Duration // maximum age of closed sessions that count; 0: no limit
	Provisional bool          // also count open sessions
	WhatIf      float64       // probability that a pick is withheld, for projected intervals; 0: none
	Explain     string        // slug of the lesson whose rows are explained
	Bands       bool          // compute the effect over time, for pages
}

// Reporter computes a tenant's report.
type Reporter interface {
	Report(ctx context.Context, q ReportQuery) (report.Report, error)
}

// Library reads the lessons and the audit log for lessons.
type Library interface {
	// Book returns the lessons in every state, as last loaded.
	Book() *lesson.Book
	// Archived returns an archived lesson, or ErrNoLesson.
	Archived(ctx context.Context, slug string) (*lesson.Lesson, error)
	// Block returns the exact text that a session gets for a lesson.
	Block(tenant string, l *lesson.Lesson) string
	Findings(l *lesson.Lesson) []lesson.Finding
	// Log returns the newest n events, oldest first.
	Log(ctx context.Context, n int) ([]lesson.Event, error)
}

// Surveyor computes figures that the counters do not have, from the stored sessions.
type Surveyor interface {
	// Survey reads a tenant's newest sessions. It can take seconds, so pages share the result.
	Survey(ctx context.Context, tenant string) (*report.Survey, error)
	// Nearest returns the lessons that came closest to a match, apart from those in matched.
	Nearest(ctx context.Context, tenant, session string, matched []string) ([]backtest.Reason, error)
	// Backtest returns the captured sessions that a lesson would have matched.
	Backtest(ctx context.Context, tenant string, l *lesson.Lesson) (backtest.Result, error)
}

// LessonChanger changes lessons. The watcher reads a change within two seconds.
type LessonChanger interface {
	// Act applies an action by a person. Act fails if the lesson differs from seen, the version that the person saw; a
	// zero seen skips this check.
	Act(ctx context.Context, slug string, seen lesson.SeenVersion, a lesson.Action, plan lesson.TrialPlan, by string) (*lesson.Lesson, error)
}

// ErrNoLesson is the error for an unknown slug.
var ErrNoLesson = errors.New("unknown lesson")

// Archive reads sessions and samples. Each call returns a bounded part.
type Archive interface {
	SessionLists
	Run(ctx context.Context, tenant, name string) (store.RunSessions, error)
	Transcripts
	InsertedText(ctx context.Context, tenant, name, slug string) (string, error)
	BrowseSamples(ctx context.Context, q *store.SampleQuery) (store.SampleList, error)
}

// SessionLists lists sessions. Recent returns the newest sessions, and BrowseOrdered sorts them.
type SessionLists interface {
	Browse(ctx context.Context, q store.SessionQuery) (store.SessionList, error)
	Recent(ctx context.Context, tenant string, since, until time.Time) (store.Recent, error)
	BrowseOrdered(ctx context.Context, recent *store.Recent, q *store.SessionQuery, compare func(x, y *store.SessionItem) int) (store.SessionList, error)
}

// Transcripts reads a session's exchanges, all together or part by part.
type Transcripts interface {
	Transcript(ctx context.Context, tenant, name string, from int) (store.Transcript, error)
	EachPart(ctx context.Context, tenant, name string, use func(*store.Transcript) error) error
}

// Rater accepts feedback for any session.
type Rater interface {
	Rate(ctx context.Context, tenant string, p feedback.Post) (store.Posted, error)
}

// Forgetter deletes a session's data, or a tenant's if session is empty, and returns the number of sessions.
type Forgetter interface {
	Forget(ctx context.Context, tenant, session string) (int, error)
}

// Importer stores past conversations (detect.ReadTranscripts) outside the experiment. If agent is empty, each
// transcript's source is the agent.
type Importer interface {
	Import(ctx context.Context, tenant, agent string, r io.Reader, at time.Time) (learn.ImportResult, error)
}

// Exporter writes selected stored data.
type Exporter interface {
	Export(ctx context.Context, w io.Writer, e Export) error
}

// Export selects what to export.
type Export struct {
	Format string // one of ExportFormats
	store.SampleQuery
}

// ExportFormats returns the formats that the dashboard and precept export can write.
func ExportFormats() []string {
	return []string{"mplp", "openai", "preference", "experiment", "parquet"}
}

// Figure is one line in the health table.
type Figure struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	Bad   bool   `json:"bad,omitempty"` // show as a problem
	Help  string `json:"-"`             // help section about the figure, such as AGENTS#known-limits; empty: none
}
