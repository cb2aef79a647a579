package proxy

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"precept/bandit/feedback"
	"precept/configs"
	"precept/internal/label"
	"precept/internal/wire"
	"precept/proxy/hooks"
	"precept/store"
)

const maxHookBytes = 8 << 20

// hookAnswer is the answer to a webhook delivery.
type hookAnswer struct {
	Status string        `json:"status"` // joined, parked (kept until the session is stored) or ignored
	Reason string        `json:"reason,omitempty"`
	Events []entryAnswer `json:"events,omitempty"`
}

// serveHook serves POST /v1/hooks/github and /v1/hooks/gitlab. Each configured secret belongs to a tenant. The secret
// that matches the delivery's signature, and not the payload, decides the tenant. The service shows the answer to the
// webhook's owner.
func (p *Proxy) serveHook(c echo.Context) error {
	service, set := hooks.Service(c.Param("id")), p.settings.Load()
	secrets, known := map[hooks.Service][]configs.Hook{hooks.GitHub: set.cfg.Hooks.GitHub, hooks.GitLab: set.cfg.Hooks.GitLab}[service]
	switch {
	case !known:
		return newAPIError(wire.NoDialect, http.StatusNotFound, "precept accepts webhooks at /v1/hooks/github and /v1/hooks/gitlab; correct the path")
	case len(secrets) == 0:
		return newAPIError(wire.NoDialect, http.StatusNotFound, "hooks."+string(service)+" is empty; add the webhook's secret to precept's configuration")
	}
	count := func(result label.HookResult) {
		p.opts.Metrics.hooks.WithLabelValues(string(service), string(result)).Inc()
	}
	header, now, log := c.Request().Header, p.opts.Now(), p.opts.log(unwrapClient(c.Response()))
	unauthorized := func() error {
		count(label.HookUnauthorized)
		p.refusedHooks.warn(log, service, now)
		return newAPIError(wire.NoDialect, http.StatusUnauthorized, "no secret in hooks."+string(service)+" matches this delivery; compare the webhook's secret with precept's configuration")
	}
	if !hooks.HasSignature(service, header) {
		return unauthorized()
	}
	body, err := readBody(c, maxHookBytes, "the body exceeds 8 MiB; select fewer event types in the webhook's settings")
	if err != nil {
		return err
	}
	tenant, ok := "", false
	for i := range secrets {
		if hooks.IsSigned(service, header, body, secrets[i].Secret.Reveal(), now) {
			tenant, ok = secrets[i].Tenant, true
		}
	}
	if !ok {
		return unauthorized()
	}
	if tenant == "" {
		tenant = "default"
	}
	marks := deliveryMarks(service, tenant, hooks.DeliveryID(header), body)
	if p.deliveries.seen(marks) {
		count(label.HookDuplicate)
		return c.JSON(http.StatusOK, hookAnswer{Status: string(store.Ignored), Reason: "this delivery arrived before"})
	}
	events, reason, err := hooks.Parse(service, header, body)
	switch {
	case err != nil:
		count(label.HookMalformed)
		return newAPIError(wire.NoDialect, http.StatusBadRequest, err.Error()+"; set the webhook's content type to application/json")
	case len(events) == 0:
		count(label.HookIgnored)
		return c.JSON(http.StatusOK, hookAnswer{Status: string(store.Ignored), Reason: reason})
	case !set.cfg.Learning.Enabled || set.optOut.OptsOutTenant(tenant):
		count(label.HookIgnored)
		return c.JSON(http.StatusOK, hookAnswer{Status: string(store.Ignored), Reason: "learning is off for this tenant"})
	}
	answer := hookAnswer{Status: string(store.Ignored)}
	for i := range events {
		r := p.rateEvent(c, service, tenant, &events[i], now)
		if r.code == http.StatusServiceUnavailable {
			count(label.HookFailed)
			return newAPIError(wire.NoDialect, r.code, r.Error)
		}
		if r.Status == string(store.Joined) || r.Status == string(store.Parked) && answer.Status == string(store.Ignored) {
			answer.Status = r.Status
		}
		answer.Events = append(answer.Events, r)
	}
	if answer.Status == string(store.Ignored) {
		count(label.HookUnknown)
		answer.Reason = answer.Events[0].Error
		return c.JSON(http.StatusOK, answer)
	}
	p.deliveries.add(marks)
	if answer.Status == string(store.Parked) {
		count(label.HookParked)
		return c.JSON(http.StatusAccepted, answer)
	}
	count(label.HookRated)
	log.Info("a webhook gave feedback on sessions", "service", service, "outcome", events[0].Outcome, "sessions", len(answer.Events[0].Sessions), "runs", len(answer.Events[0].Runs))
	return c.JSON(http.StatusAccepted, answer)
}

// rateEvent stores feedback on the sessions that worked on the commit, branch or pull request. The entry has the
// event's time, so that repeated or reordered events result in the same reward.
func (p *Proxy) rateEvent(c echo.Context, service hooks.Service, tenant string, e *hooks.Event, now time.Time) entryAnswer {
	details, _ := json.Marshal(map[string]string{"event": string(e.Outcome), "repository": e.Repository, "check": e.Check}) // encoding strings never fails
	entry := feedback.Entry{
		ID: e.ID(service), At: now, Source: feedback.SourceSystem, Type: feedback.TypeScore, Score: e.Outcome.Score(), Tier: feedback.TierVerifier,
		Rater: string(service), Stage: feedback.StageEnd, Details: details,
	}
	if e.Outcome.IsCheck() {
		entry.Rater, entry.Stage = string(service)+" "+e.Check, feedback.StageCheck
	}
	if !e.At.IsZero() && e.At.Before(now) {
		entry.At = e.At
	}
	if len(e.RefGroups) == 0 {
		return entryAnswer{Status: "refused", Error: "the event names no commit, branch or pull request that can be looked up"}
	}
	done, err := p.opts.Store.RateWork(c.Request().Context(), tenant, e.RefGroups, entry)
	if fault, ok := errors.AsType[*store.WorkError](err); ok {
		return entryAnswer{ID: entry.ID, Status: "refused", Error: fault.Advice}
	}
	if err != nil {
		return p.notStored(c, feedback.Post{Entry: entry}, err)
	}
	p.opts.Metrics.feedback.WithLabelValues(entry.Source, entry.Type, string(done.Status)).Inc()
	return newEntryAnswer(entry.ID, &done)
}

// refusedHooks logs refused deliveries, at most once a minute, because any client can send one.
type refusedHooks struct {
	mu          sync.Mutex
	lastWarning time.Time
	count       int // refused deliveries since the last warning
}

func (r *refusedHooks) warn(log *slog.Logger, service hooks.Service, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count++
	if !r.lastWarning.IsZero() && now.Sub(r.lastWarning) < warningInterval {
		return
	}
	log.Warn("a webhook was refused: no configured secret matches; compare the webhook's secret with the configuration",
		"service", service, "key", "hooks."+string(service), "refused", r.count)
	r.lastWarning, r.count = now, 0
}

// maxDeliveries is the maximum number of stored delivery marks. Even if a mark was dropped, a repeated delivery changes
// nothing, because both deliveries result in a feedback entry with the same id and time.
const maxDeliveries = 4096

// deliveryMark is a hash over a delivery's id or body.
type deliveryMark [sha256.Size]byte

// deliveryMarks returns a mark for the body as well as for the id, because GitHub's signature does not cover the id.
func deliveryMarks(service hooks.Service, tenant, id string, body []byte) []deliveryMark {
	from := string(service) + "\x00" + tenant + "\x00"
	marks := []deliveryMark{sha256.Sum256(append([]byte(from+"body\x00"), body...))}
	if id != "" {
		marks = append(marks, sha256.Sum256([]byte(from+"id\x00"+id)))
	}
	return marks
}

// deliveries recognises repeated deliveries, if the first delivery rated sessions.
type deliveries struct {
	mu    sync.Mutex
	marks map[deliveryMark]bool
	order []deliveryMark // oldest first
}

func (d *deliveries) seen(marks []deliveryMark) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.ContainsFunc(marks, func(m deliveryMark) bool { return d.marks[m] })
}

func (d *deliveries) add(marks []deliveryMark) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.marks == nil {
		d.marks = map[deliveryMark]bool{}
	}
	for _, m := range marks {
		if !d.marks[m] {
			d.marks[m] = true
			d.order = append(d.order, m)
		}
	}
	for len(d.order) > maxDeliveries {
		delete(d.marks, d.order[0])
		d.order = d.order[1:]
	}
}
