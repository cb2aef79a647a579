package proxy

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"precept/bandit/feedback"
	"precept/configs"
	"precept/internal/label"
	"precept/internal/wire"
	"precept/store"
)

// maxFeedbackBytes is the maximum body size for POST /v1/feedback.
const maxFeedbackBytes = 8 << 20

// entryAnswer is the answer to one feedback entry.
type entryAnswer struct {
	ID      string `json:"id,omitempty"`
	Session string `json:"session_id,omitempty"`
	Run     string `json:"run_id,omitempty"`
	Status  string `json:"status"`
	Message string `json:"message,omitempty"` // for a person: why the entry waits, for how long, and what to check
	Error   string `json:"error,omitempty"`
	code    int    // HTTP status; 0 for an accepted entry

	// The answer to feedback on a commit, a branch or a pull request has all rated sessions and runs, newest first.
	Sessions []string `json:"sessions,omitempty"`
	Runs     []string `json:"runs,omitempty"`
}

// serveFeedback serves POST /v1/feedback with one entry or an array. An invalid entry does not affect the others.
func (p *Proxy) serveFeedback(c echo.Context) error {
	set := p.settings.Load()
	client, err := set.apiIdentity(c.Request())
	if err != nil {
		return err
	}
	body, err := readBody(c, maxFeedbackBytes, "the body exceeds 8 MiB; send fewer entries at once")
	if err != nil {
		return err
	}
	posts, errs, bulk, err := feedback.Parse(body)
	if err != nil {
		return newAPIError(wire.NoDialect, http.StatusBadRequest, err.Error())
	}
	answers := make([]entryAnswer, len(posts))
	for i := range posts {
		if errs[i] != nil {
			answers[i] = entryAnswer{Status: "refused", Error: errs[i].Error(), code: http.StatusBadRequest}
			continue
		}
		answers[i] = p.storeEntry(c, client, posts[i])
	}
	if bulk {
		return c.JSON(http.StatusAccepted, answers)
	}
	if a := answers[0]; a.code != 0 {
		return newAPIError(wire.NoDialect, a.code, a.Error)
	}
	return c.JSON(http.StatusAccepted, answers[0])
}

func (p *Proxy) storeEntry(c echo.Context, client identity, post feedback.Post) entryAnswer {
	post = post.WithReceipt(p.opts.Now(), func() string { return p.opts.newID("fb_") })
	m := p.opts.Metrics
	if !p.settings.Load().mayStoreFeedback(c.Request(), &client) {
		m.feedback.WithLabelValues(post.Entry.Source, post.Entry.Type, string(store.Ignored)).Inc()
		return entryAnswer{ID: post.Entry.ID, Session: post.SessionID, Run: post.RunID, Status: string(store.Ignored)}
	}
	done, err := p.opts.Store.Rate(c.Request().Context(), client.tenant, post)
	if err != nil {
		return p.notStored(c, post, err)
	}
	m.feedback.WithLabelValues(post.Entry.Source, post.Entry.Type, string(done.Status)).Inc()
	a := newEntryAnswer(post.Entry.ID, &done)
	if done.Status != store.Joined { // the store has not found the session, so the answer has the names that the client sent
		a.Session, a.Run = cmp.Or(a.Session, post.SessionID), cmp.Or(a.Run, post.RunID)
	}
	if done.Status == store.Parked {
		a.Message = parkedMessage(&post, &done, p.settings.Load().cfg)
	}
	return a
}

// parkedMessage says why an entry is parked, for how long precept keeps the entry, and what the client should check.
func parkedMessage(post *feedback.Post, done *store.Posted, cfg *configs.Config) string {
	age := formatAge(store.ParkedAge(cfg.Learning.Retention))
	if done.Delayed {
		return "the store does not answer; precept keeps the feedback for up to " + age + ", and looks for the session when the store answers again"
	}
	kind, name, check := "session", post.SessionID, "check the name against the Precept-Session response header"
	switch {
	case post.RunID != "":
		kind, name, check = "run", post.RunID, "check the name against the agents' Precept-Run header"
	case post.RequestID != "":
		kind, name, check = "request", post.RequestID, "check the id against the Precept-Request-Id response header"
	case post.SampleID != "":
		kind, name, check = "sample", post.SampleID, "check the id against the sample in the dashboard or the export"
	case post.ResponseID != "":
		kind, name, check = "response", post.ResponseID, "check the id against the id in the model's response"
	}
	if cfg.Tenancy != "single" {
		check += ", and send the agent's API key"
	}
	return fmt.Sprintf("precept knows no %s %q yet, keeps the feedback for up to %s, and adds the feedback when the %s appears; %s",
		kind, name, age, kind, check)
}

// formatAge formats a period in days or hours if the period is a whole number of them.
func formatAge(age time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case age == day:
		return "1 day"
	case age%day == 0:
		return fmt.Sprintf("%d days", age/day)
	case age%time.Hour == 0:
		return fmt.Sprintf("%d hours", age/time.Hour)
	}
	return age.String()
}

func newEntryAnswer(id string, done *store.Posted) entryAnswer {
	answer := entryAnswer{ID: id, Session: done.Session, Run: done.Run, Status: string(done.Status)}
	if done.Work != nil {
		answer.Sessions, answer.Runs = done.Work.Sessions, done.Work.Runs
	}
	return answer
}

func (p *Proxy) notStored(c echo.Context, f feedback.Post, err error) entryAnswer {
	count := func(status string) {
		p.opts.Metrics.feedback.WithLabelValues(f.Entry.Source, f.Entry.Type, status).Inc()
	}
	if advice, ok := store.LimitAdvice(err); ok {
		count("full")
		return entryAnswer{ID: f.Entry.ID, Status: "refused", code: http.StatusTooManyRequests, Error: advice}
	}
	count("refused")
	if fault, ok := errors.AsType[*store.WorkError](err); ok {
		return entryAnswer{ID: f.Entry.ID, Status: "refused", code: fault.Status, Error: fault.Advice}
	}
	if errors.Is(err, store.ErrNoSession) {
		return entryAnswer{ID: f.Entry.ID, Status: "refused", code: http.StatusNotFound, Error: "the sample_id is unknown; a session has samples only after it has closed"}
	}
	p.opts.Metrics.FailedOpen(label.StepFeedback)
	p.opts.log(unwrapClient(c.Response())).Warn("feedback could not be stored; the client got a 503", "error", err)
	return entryAnswer{ID: f.Entry.ID, Status: "refused", code: http.StatusServiceUnavailable, Error: "precept cannot store the feedback at the moment; post the feedback again later"}
}
