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

// Options configure an admin server. All functions must be safe for concurrent calls.
type Options struct {
	Access     Access
	Address    Address
	Read       Readers
	Write      Writers
	Program    Program
	TrueEffect func(slug string) (float64, bool) // true effects in the demo, in units of reward; else nil
	DataDir    string                            // directory of the audit log and of the logins; "" keeps both in memory only
	Random     io.Reader                         // source of the ids of sessions, requests and views
	Now        func() time.Time
	Log        *slog.Logger
}

// Address holds the addresses of the admin listener and of the data listener. The server checks requests against these
// addresses, and puts them into links.
type Address struct {
	BasePath string // path prefix under which a proxy serves the admin listener, such as /precept; empty: none
	Listen   string // host:port of the admin listener
	DataURL  string // base URL of the data listener for agents
}

// Readers read the data for the pages and for the API.
type Readers struct {
	Report  Reporter
	Library Library
	Survey  Surveyor
	Archive Archive
	Export  Exporter
	Rules   RulesReader
}

// Writers change stored data, such as states of lessons, feedback, sessions and saved views.
type Writers struct {
	Lessons LessonChanger
	Rate    Rater
	Forget  Forgetter
	Import  Importer
	Notes   Notes
}

// Program reports the state of the running program.
type Program struct {
	Figures func(context.Context) []Figure // summary figures on the overview and the health page
	Health  func(context.Context) Health
	Prices  func() Prices
	Tenants func(context.Context) ([]string, error) // names of the tenants with stored data; nil means unknown
	Ready   func() (string, error)                  // returns a line about the state, or an error while not ready
	Metrics http.Handler
}

// Access holds the tokens and the host names. A reload replaces the whole value.
type Access struct {
	Tokens        []string // tokens of operators: plain text, or sha256:<hex>
	Viewers       []string // tokens of viewers, which read only lessons and statistics; same forms
	Hosts         []string // host names that are accepted in a Host header, besides localhost and the host in Address.Listen
	PublicMetrics bool     // /metrics without a token
}

// errNoToken is the error for an Access without a token, or with an empty token.
var errNoToken = errors.New("no admin token is set; set PRECEPT_ADMIN_TOKEN or admin.tokens")

// ReportQuery selects a report.
type ReportQuery struct {
	Tenant      string
	Window      time.Duration // maximum age of the closed sessions that count; 0 means no limit
	Provisional bool          // count open sessions, too
	WhatIf      float64       // epsilon (the probability that a pick is withheld) for which the report projects its intervals; 0 if none
	Explain     string        // slug of the lesson whose rows are explained; empty: none
	Bands       bool          // compute the effect over time, which only pages need
}

// Reporter computes the report of a tenant.
type Reporter interface {
	Report(ctx context.Context, q ReportQuery) (report.Report, error)
}

// Library reads the lessons of the bank and their audit log.
type Library interface {
	// Book returns the lessons of every state, as of the last load.
	Book() *lesson.Book
	// Archived returns an archived lesson, or ErrNoLesson.
	Archived(ctx context.Context, slug string) (*lesson.Lesson, error)
	// Block returns the exact text that a session of the tenant gets for a lesson.
	Block(tenant string, l *lesson.Lesson) string
	// Findings returns the results of the checks on a lesson.
	Findings(l *lesson.Lesson) []lesson.Finding
	// Log returns the newest n events of the audit log of the lessons, with the oldest of them first.
	Log(ctx context.Context, n int) ([]lesson.Event, error)
}

// Surveyor computes figures from the stored sessions, because the counters do not contain them.
type Surveyor interface {
	// Survey reads the newest sessions of a tenant. This may take seconds, so pages share the result.
	Survey(ctx context.Context, tenant string) (*report.Survey, error)
	// Nearest returns the lessons that came closest to a match in a session. matched names the lessons that matched.
	Nearest(ctx context.Context, tenant, session string, matched []string) ([]backtest.Reason, error)
	// Backtest returns the captured sessions of a tenant in which a lesson would have matched.
	Backtest(ctx context.Context, tenant string, l *lesson.Lesson) (backtest.Result, error)
}

// LessonChanger changes the state of lessons in the bank. A change takes effect within two seconds, when the watcher of
// the lessons has read the change.
type LessonChanger interface {
	// Act applies action a to the lesson slug, and returns the changed lesson. by is the name of the person who acts.
	// Act fails if the lesson differs from seen, the version that the person saw. A zero seen skips this check.
	Act(ctx context.Context, slug string, seen lesson.SeenVersion, a lesson.Action, plan lesson.TrialPlan, by string) (*lesson.Lesson, error)
}

// ErrNoLesson is the error of a Keeper or a Library for an unknown slug.
var ErrNoLesson = errors.New("unknown lesson")

// Archive reads stored sessions and samples. Each call reads a bounded part of the store.
type Archive interface {
	SessionLists
	Run(ctx context.Context, tenant, name string) (store.RunSessions, error)
	Transcripts
	Block(ctx context.Context, tenant, name, slug string) (string, error)
	BrowseSamples(ctx context.Context, q *store.SampleQuery) (store.SampleList, error)
}

// SessionLists lists stored sessions. Recent holds the newest sessions, and Ordered sorts these sessions.
type SessionLists interface {
	Browse(ctx context.Context, q store.SessionQuery) (store.SessionList, error)
	Recent(ctx context.Context, tenant string, since, until time.Time) (store.Recent, error)
	BrowseOrdered(ctx context.Context, recent *store.Recent, q *store.SessionQuery, compare func(x, y *store.SessionItem) int) (store.SessionList, error)
}

// Transcripts reads the exchanges of a session. A page reads one part, and an export reads all parts one by one.
type Transcripts interface {
	Transcript(ctx context.Context, tenant, name string, from int) (store.Transcript, error)
	EachPart(ctx context.Context, tenant, name string, use func(*store.Transcript) error) error
}

// Rater accepts feedback for any session.
type Rater interface {
	Rate(ctx context.Context, tenant string, p feedback.Post) (store.Posted, error)
}

// Forgetter deletes the stored data of a session, or of the whole tenant if session is empty. Forget returns the
// number of deleted sessions.
type Forgetter interface {
	Forget(ctx context.Context, tenant, session string) (int, error)
}

// Importer stores past conversations as sessions outside of the experiment. detect.ReadTranscripts defines the accepted
// forms. If agent is empty, the source of each transcript becomes the agent of its session.
type Importer interface {
	Import(ctx context.Context, tenant, agent string, r io.Reader, at time.Time) (learn.ImportResult, error)
}

// Exporter writes a selection of stored data.
type Exporter interface {
	Export(ctx context.Context, w io.Writer, e Export) error
}

// Export selects the content of an export.
type Export struct {
	Format string // one of ExportFormats
	store.SampleQuery
}

// ExportFormats returns the formats of an export of samples. The command precept export has the same formats.
func ExportFormats() []string {
	return []string{"mplp", "openai", "preference", "experiment", "parquet"}
}

// Figure is one line of the health table.
type Figure struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	Bad   bool   `json:"bad,omitempty"` // show as a problem
	Help  string `json:"-"`             // section of the help that explains the figure, such as AGENTS#known-limits; empty: none
}
