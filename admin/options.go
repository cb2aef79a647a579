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
	"precept/store"
)

// Options is what an admin server is made of. Every function may be called concurrently.
type Options struct {
	Access  Access
	Base    string // the path below which a proxy before it shows it, such as /precept; "": none
	Listen  string // the listener's own host:port
	Data    string // where agents reach the data listener
	Report  Reporter
	Library Library
	Survey  Surveyor
	Keep    Keeper
	Archive Archive
	Rate    Rater
	Forget  Forgetter
	Export  Exporter
	Figures func(context.Context) []Figure // health in short
	Health  func(context.Context) Health
	Prices  func() Prices
	Ready   func() (string, error) // a line that says how it does, or why it is not ready
	Metrics http.Handler
	Truth   func(slug string) (float64, bool) // demo: the true effect, in units of reward; nil: unknown
	DataDir string                            // where actions are noted; "": in memory only
	Random  io.Reader                         // of session ids and CSRF tokens
	Now     func() time.Time
	Log     *slog.Logger
}

// Access is who may come in; it is swapped whole when the configuration changes.
type Access struct {
	Tokens        []string // of operators; in clear, or sha256:<hex>
	Viewers       []string // tokens that look, and act on nothing
	Hosts         []string // further host names
	PublicMetrics bool     // /metrics without a token
}

// errNoToken is returned for an Access that would leave the door without a lock, or with one that
// anybody opens.
var errNoToken = errors.New("no admin token in force; set PRECEPT_ADMIN_TOKEN or admin.tokens")

// Query says which report is asked for.
type Query struct {
	Tenant      string
	Window      time.Duration // 0: all that there is
	Provisional bool          // count sessions that have not closed yet
	WhatIf      float64       // an epsilon to project for; 0: none
	Explain     string        // a slug whose rows are to say how they came about; "" none
	Bands       bool          // with the effect over time, which pages draw
}

// Reporter makes the report of one tenant.
type Reporter interface {
	Report(ctx context.Context, q Query) (report.Report, error)
}

// Library reads the lessons where they are kept, for the pages about them.
type Library interface {
	// Book is the lessons of every state, as they were last read.
	Book() *lesson.Book
	// Block is what a session of the tenant gets of a lesson, byte for byte.
	Block(tenant string, l *lesson.Lesson) string
	// Findings is what the checks have to say on a lesson.
	Findings(l *lesson.Lesson) []lesson.Finding
	// Log is the newest n events of the audit log, oldest first.
	Log(ctx context.Context, n int) ([]lesson.Event, error)
}

// Surveyor goes through stored sessions, for what the counters do not keep.
type Surveyor interface {
	// Survey is a look at the newest sessions of a tenant. It may take seconds; pages keep it.
	Survey(ctx context.Context, tenant string) (*report.Survey, error)
	// Backtest tells in which of the newest captured sessions of a tenant a lesson would have
	// fired.
	Backtest(ctx context.Context, tenant string, l *lesson.Lesson) (backtest.Result, error)
}

// Keeper changes the state of lessons where they are kept. The change is in force when whoever
// watches that place has seen it.
type Keeper interface {
	Act(ctx context.Context, slug string, seen lesson.Sight, a lesson.Action, plan lesson.TrialPlan, by string) (*lesson.Lesson, error)
}

// ErrNoLesson is a Keeper's answer to a slug that it does not have.
var ErrNoLesson = errors.New("there is no such lesson")

// Archive is what is kept of sessions and samples. Each question looks at a bounded part of it.
type Archive interface {
	Browse(ctx context.Context, q store.SessionQuery) (store.SessionList, error)
	Transcript(ctx context.Context, tenant, name string, from int) (store.Transcript, error)
	Block(ctx context.Context, tenant, name, slug string) (string, error)
	BrowseSamples(ctx context.Context, q *store.SampleQuery) (store.SampleList, error)
}

// Rater takes a feedback in, whoever's session it is.
type Rater interface {
	Rate(ctx context.Context, tenant string, p feedback.Post) (store.Posted, error)
}

// Forgetter deletes what is kept of a session, or of a whole tenant where session is empty, and
// says how many sessions there were.
type Forgetter interface {
	Forget(ctx context.Context, tenant, session string) (int, error)
}

// Exporter writes a selection of what was learned.
type Exporter interface {
	Export(ctx context.Context, w io.Writer, e Export) error
}

// Export says what an export holds.
type Export struct {
	Format string // one of ExportFormats
	store.SampleQuery
}

// ExportFormats are those of precept export.
func ExportFormats() []string {
	return []string{"mplp", "openai", "preference", "experiment", "parquet"}
}

// Figure is one line of the health table.
type Figure struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	Bad   bool   `json:"bad,omitempty"` // worth a look
}

// Prices are what a million tokens of input cost, in the operator's currency; 0: not known.
type Prices struct {
	Input  float64
	Cached float64 // those that the provider's prompt cache had; 0: as the others
}
