package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"precept/inject/bank"
	"precept/inject/lesson"
	"precept/internal/label"
	"precept/internal/session"
	"precept/internal/wire"
)

const (
	maxLessonBytes  = 256 << 10 // bytes in a request body
	defaultPageSize = 50        // lessons on a page if the limit parameter is missing
	maxPageSize     = 200       // maximum for the limit parameter
)

// apiLesson is a lesson's JSON form in /v1/lessons.
type apiLesson struct {
	ID         string       `json:"id"`
	Signature  string       `json:"signature"`
	LessonText string       `json:"lesson_text"`
	HitCount   int64        `json:"hit_count"`
	State      lesson.State `json:"state"`
	CreatedAt  time.Time    `json:"created_at"`
	UpdatedAt  time.Time    `json:"updated_at"`
	LastSeenAt *time.Time   `json:"last_seen_at"` // time of the newest turn matched by the lesson; nil for none
	Keywords   []string     `json:"keywords"`
	Targets    []apiTarget  `json:"targets,omitempty"`
}

// apiTarget is a lesson target's JSON form.
type apiTarget struct {
	Operator string `json:"operator,omitempty"`
	Role     string `json:"role,omitempty"`
	Skill    string `json:"skill,omitempty"`
}

// agentLessons serves the lessons written by agents.
type agentLessons struct {
	opts  *Options
	cache bookCache
}

// lessonsRequest is a request or a /lesson command from one agent.
type lessonsRequest struct {
	shared   *agentLessons
	settings *settings
	scope    lesson.Scope
	log      *slog.Logger
}

// owns reports whether the agent wrote the lesson. To the agent, every other lesson looks unknown.
func (req lessonsRequest) owns(l *lesson.Lesson) bool {
	return l.Scope == req.scope && l.Approval.Source != ""
}

// find returns the agent's lesson with a slug, or with a number from a /lesson answer.
func (req lessonsRequest) find(ctx context.Context, id string) (*lesson.Book, *lesson.Lesson, error) {
	book, err := req.book(ctx)
	if err != nil {
		return nil, nil, err
	}
	if l, ok := book.Get(id); ok && req.owns(l) {
		return book, l, nil
	}
	if number, err := strconv.Atoi(id); err == nil && number > 0 {
		for _, l := range book.Lessons() {
			if l.Number == number && req.owns(l) {
				return book, l, nil
			}
		}
	}
	return nil, nil, errNoLesson
}

var errNoLesson = newAPIError(wire.NoDialect, http.StatusNotFound, "the agent has no lesson with this id; GET /v1/lessons lists the agent's lessons")

// bookCache caches the bank's lessons, because agents may ask often. A write on this server is visible to the next
// read, a write on another server within maxBookAge.
type bookCache struct {
	mu     sync.Mutex
	book   *lesson.Book // nil means the next book call reads the bank
	readAt time.Time    // when book was read
}

const maxBookAge = time.Second

func (req lessonsRequest) book(ctx context.Context) (*lesson.Book, error) {
	c := &req.shared.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.book != nil && req.shared.opts.Now().Sub(c.readAt) < maxBookAge {
		return c.book, nil
	}
	book, _, err := req.shared.opts.Bank.List(ctx)
	if err != nil {
		req.shared.opts.Metrics.FailedOpen(label.StepLessons)
		req.log.Warn("the lessons could not be read for an agent; the client got a 503", "error", err)
		return nil, newAPIError(wire.NoDialect, http.StatusServiceUnavailable, "the lessons cannot be read at the moment; try again")
	}
	c.book, c.readAt = book, req.shared.opts.Now()
	return book, nil
}

func (c *bookCache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.book = nil
}

func (req lessonsRequest) get(c echo.Context) error {
	book, l, err := req.find(c.Request().Context(), c.Param("id"))
	if err != nil {
		return err
	}
	req.shared.opts.Consultations.refresh(c.Request().Context(), []string{l.Slug})
	return c.JSON(http.StatusOK, req.view(book, l))
}

func (req lessonsRequest) view(book *lesson.Book, l *lesson.Lesson) apiLesson {
	v := apiLesson{
		ID: l.Slug, Signature: l.Title, LessonText: lessonText(l), State: l.State, CreatedAt: l.CreatedAt, UpdatedAt: l.UpdatedAt,
		Keywords: l.Trigger.Keywords,
	}
	if state, ok := book.StateAt(l.Slug, req.shared.opts.Now()); ok {
		v.State = state
	}
	var seen time.Time
	if v.HitCount, seen = req.shared.opts.Consultations.lookup(l.Slug); !seen.IsZero() {
		v.LastSeenAt = &seen
	}
	for _, t := range l.Trigger.Targets {
		v.Targets = append(v.Targets, apiTarget(t))
	}
	return v
}

// list answers with a page of lessons, the most recently matched first.
func (req lessonsRequest) list(c echo.Context) error {
	for key := range c.QueryParams() {
		if !slices.Contains([]string{"q", "limit", "after", "key"}, key) { // key is Gemini's credential
			return newAPIError(wire.NoDialect, http.StatusUnprocessableEntity, fmt.Sprintf("%.40q is an unknown parameter; the parameters are after, limit, q", key))
		}
	}
	limit := defaultPageSize
	if text := c.QueryParam("limit"); text != "" {
		var err error
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > maxPageSize {
			return newAPIError(wire.NoDialect, http.StatusUnprocessableEntity, "limit must be a number from 1 to 200")
		}
	}
	all, err := req.search(c.Request().Context(), c.QueryParam("q"))
	if err != nil {
		return err
	}
	from := 0
	if after := c.QueryParam("after"); after != "" {
		if from = 1 + slices.IndexFunc(all, func(v apiLesson) bool { return v.ID == after }); from == 0 {
			return newAPIError(wire.NoDialect, http.StatusUnprocessableEntity, "after is not the id of one of the agent's lessons; use the value of next from the previous page")
		}
	}
	page := all[from:min(from+limit, len(all))]
	answer := map[string]any{"lessons": page, "next": nil}
	if from+limit < len(all) {
		answer["next"] = page[len(page)-1].ID
	}
	return c.JSON(http.StatusOK, answer)
}

// search returns the lessons that contain q, the most recently matched first.
func (req lessonsRequest) search(ctx context.Context, q string) ([]apiLesson, error) {
	book, err := req.book(ctx)
	if err != nil {
		return nil, err
	}
	var found []*lesson.Lesson
	var slugs []string
	for _, l := range book.Lessons() {
		if req.owns(l) && matchesText(l, q) {
			found, slugs = append(found, l), append(slugs, l.Slug)
		}
	}
	req.shared.opts.Consultations.refresh(ctx, slugs)
	all := make([]apiLesson, 0, len(found))
	for _, l := range found {
		all = append(all, req.view(book, l))
	}
	recent := func(v *apiLesson) time.Time {
		if v.LastSeenAt != nil {
			return *v.LastSeenAt
		}
		return time.Time{}
	}
	slices.SortFunc(all, func(a, b apiLesson) int {
		return cmp.Or(recent(&b).Compare(recent(&a)), b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return all, nil
}

// matchesText reports whether a lesson contains q. Case does not matter.
func matchesText(l *lesson.Lesson, q string) bool {
	q = strings.ToLower(strings.TrimSpace(q))
	return q == "" || strings.Contains(strings.ToLower(l.Title+"\n"+l.Body), q)
}

func (req lessonsRequest) create(c echo.Context) error {
	posted, err := readLessonBody(c)
	if err != nil {
		return err
	}
	if posted.Signature == nil || posted.LessonText == nil {
		return newAPIError(wire.NoDialect, http.StatusUnprocessableEntity, "signature or lesson_text is missing; send both")
	}
	l, err := posted.applyTo(newLesson(requestOrigin(c.Request())))
	if err != nil {
		return err
	}
	if l, err = req.write(c.Request().Context(), req.proposal(l), nil); err != nil {
		return req.httpError(c, err)
	}
	return c.JSON(http.StatusCreated, req.view(lesson.NewBook(nil), l))
}

// update changes a lesson, and keeps the fields that are missing from the body.
func (req lessonsRequest) update(c echo.Context) error {
	_, old, err := req.find(c.Request().Context(), c.Param("id"))
	if err != nil {
		return err
	}
	posted, err := readLessonBody(c)
	if err != nil {
		return err
	}
	text := lessonText(old)
	if posted.LessonText == nil {
		posted.LessonText = &text
	}
	if posted.Keywords == nil && posted.Signature != nil && slices.Equal(old.Trigger.Keywords, []string{old.Title}) {
		posted.Keywords = &[]string{} // applyTo makes the new signature the keyword
	}
	l, err := posted.applyTo(old.Clone())
	if err != nil {
		return err
	}
	if l, err = req.write(c.Request().Context(), req.proposal(l), old); err != nil {
		return req.httpError(c, err)
	}
	return c.JSON(http.StatusOK, req.view(lesson.NewBook(nil), l))
}

func (req lessonsRequest) remove(c echo.Context) error {
	if err := req.withdraw(c.Request().Context(), c.Param("id")); err != nil {
		return req.httpError(c, err)
	}
	return c.NoContent(http.StatusNoContent)
}

// proposal returns the proposal that writes a lesson to the bank. With writ.trust own, the lesson takes effect
// immediately for the agent that wrote it.
func (req lessonsRequest) proposal(l *lesson.Lesson) bank.Proposal {
	return bank.Proposal{Lesson: l, Source: "api", By: req.scope.Agent, Scope: req.scope, ActivateNow: req.settings.cfg.Writ.Trust == "own"}
}

func newLesson(conversation string) *lesson.Lesson {
	return &lesson.Lesson{
		Outcome: "mixed", Confidence: 0.5, Form: lesson.FormAIP11, Evidence: []lesson.Evidence{{Kind: "conversation", Ref: conversation}},
	}
}

// write writes a lesson to the bank. The lesson replaces old, if old is not nil.
func (req lessonsRequest) write(ctx context.Context, p bank.Proposal, old *lesson.Lesson) (*lesson.Lesson, error) {
	var r bank.Result
	var err error
	if old == nil {
		r, err = req.shared.opts.Bank.Propose(ctx, p)
	} else {
		r, err = req.shared.opts.Bank.Revise(ctx, old.Slug, p)
	}
	if err != nil {
		return nil, err
	}
	req.shared.cache.clear()
	return r.Lesson, nil
}

func (req lessonsRequest) withdraw(ctx context.Context, slug string) error {
	_, l, err := req.find(ctx, slug)
	if err == nil {
		err = req.shared.opts.Bank.Withdraw(ctx, l.Slug, req.scope, req.scope.Agent)
	}
	if err == nil {
		req.shared.cache.clear()
	}
	return err
}

func (req lessonsRequest) httpError(c echo.Context, err error) error {
	if own, ok := errors.AsType[*apiError](err); ok {
		return own
	}
	if r, ok := errors.AsType[*bank.Refused](err); ok {
		status := http.StatusUnprocessableEntity
		if len(r.Faults) > 0 && r.Faults[0].Code == lesson.CodeCollision {
			status = http.StatusConflict
		}
		return newAPIError(wire.NoDialect, status, r.Error())
	}
	switch {
	case errors.Is(err, bank.ErrNoLesson):
		return errNoLesson
	case errors.Is(err, bank.ErrTenantLessons):
		return newAPIError(wire.NoDialect, http.StatusTooManyRequests, err.Error())
	case errors.Is(err, bank.ErrTooMany):
		c.Response().Header().Set("Retry-After", "600")
		return newAPIError(wire.NoDialect, http.StatusTooManyRequests, err.Error())
	}
	req.shared.opts.Metrics.FailedOpen(label.StepLessons)
	req.log.Warn("an agent's lesson could not be written; the client got a 503", "error", err)
	return newAPIError(wire.NoDialect, http.StatusServiceUnavailable, "precept cannot store the lesson at the moment; try again later")
}

// requestOrigin returns a posted lesson's origin: the session that the client names, or else "v1/lessons".
func requestOrigin(r *http.Request) string {
	if name := session.NormalizeName(r.Header.Get("Precept-Session")); name != "" {
		return name
	}
	return "v1/lessons"
}
