package admin

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"
	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"precept/bandit/feedback"
	"precept/bandit/report"
	"precept/store"
)

type sessionView struct {
	session store.Transcript
	prices  Prices
}

func (s *Server) sessionPage(c echo.Context) error {
	t, err := s.transcript(c)
	if err != nil {
		return s.show(c, pageContent{Title: "Unknown session", Main: noSessionPage, Err: err})
	}
	v := sessionView{t, s.options.Program.Prices()}
	return s.show(c, pageContent{
		Title: "session " + sessionName(&t.SessionItem), Main: v.html, Live: !t.Closed && !v.hasMoreTurns(),
	})
}

func (v *sessionView) hasMoreTurns() bool { return v.session.Next < v.session.Exchanges }

func (v *sessionView) html(f frame) g.Node {
	return g.Group{
		f.breadcrumb(sessionLists()...),
		title(cmp.Or(v.session.Task, sessionName(&v.session.SessionItem)), mutedText(
			untrustedText(shortenName(v.session.SessionItem.Agent)+", "+shortenName(v.session.SessionItem.Model)+", "+v.session.SessionItem.Dialect+"; started "), timeNode(v.session.SessionItem.Started),
			g.Text(", last seen "), timeNode(v.session.SessionItem.Seen), g.If(!v.session.SessionItem.Closed, g.Text("; open")),
			g.If(v.session.Run != "", g.Group{g.Text("; run "), h.A(h.Href(f.runHref(v.session.Run)), untrustedText(shortenName(v.session.Run)))}),
		)),
		statList([]stat{
			newStat("session-reward", decimalText(v.session.Rewarded.Value, 2), v.session.SessionItem.Verdict, verdictTone(v.session.SessionItem.Verdict)),
			newStat("turns", countText(v.session.SessionItem.Turns), countText(v.session.Exchanges)+" kept", ""),
			newStat("errors", knownCount(v.session.SessionItem.Errors), errorKindsText(&v.session.SessionItem), ifElse(v.session.SessionItem.Errors != nil && *v.session.SessionItem.Errors > 0, "warn", "")),
			newStat("loops", countText(v.session.SessionItem.Loops), "", ifElse(v.session.SessionItem.Loops > 0, "warn", "")),
			spendingStat(&v.prices, v.session.SessionItem.Cost, v.session.SessionItem.Input, v.session.SessionItem.Output, unpricedModels(&v.session.SessionItem)),
			newStat("input-tokens", countText(v.session.SessionItem.Input), cacheText(v.session.SessionItem.Cached, v.session.SessionItem.Written), ""),
			newStat("session-lessons", countText(len(v.session.SessionItem.Injected)), countText(len(v.session.SessionItem.Withheld))+" withheld", ""),
		}),
		v.notices(),
		h.Div(
			h.Class("split"),
			v.turns(f),
			h.Aside(
				ariaLabel("About this session"), lessonFates(f, &v.session), rewardSection(&v.session), g.If(f.MayAct, rateForm(f, v.session.SessionItem.ID)),
				modelsSection(&v.prices, &v.session.SessionItem), aboutSession(f, &v.session.SessionItem), g.If(f.MayAct, forgetForm(f, v.session.SessionItem.ID)),
			),
		),
	}
}

// cacheText returns the tokens read from the prompt cache, and those written to it.
func cacheText[N int | int64](cached, written N) string {
	return countText(cached) + " cached" + ifElse(written > 0, ", "+countText(written)+" written to the cache", "")
}

// modelsSection returns the tokens and the cost by model, if the session has several models.
func modelsSection(p *Prices, x *store.SessionItem) g.Node {
	if len(x.Models) < 2 {
		return nil
	}
	return section("by-model", "By model", scrollRegion(ariaLabelledBy("by-model"), h.Table(
		h.Class("figures"), headingRow(wordColumns("Model"), numberColumns("Input", "Output", "Cost")),
		h.TBody(limitedList(x.Models, lastRow, func(m store.ModelUsage) g.Node {
			cost := g.Text("no price")
			if m.Cost != nil {
				cost = g.Text(p.amount(*m.Cost))
			}
			return h.Tr(
				rowHead(h.Class("name"), ifElse(m.Model == "", g.Node(g.Text("unknown")), untrustedText(shortenName(m.Model)))),
				h.Td(g.Text(countText(m.Input)), smallLine(g.Text(cacheText(m.Cached, m.Written)))),
				h.Td(g.Text(countText(m.Output))), h.Td(cost),
			)
		})),
	)))
}

// errorKindsText names two kinds of tool errors and counts the others.
func errorKindsText(x *store.SessionItem) string {
	const maxShown = 2
	text := strings.Join(x.ErrorKinds[:min(len(x.ErrorKinds), maxShown)], ", ")
	if len(x.ErrorKinds) > maxShown {
		text += fmt.Sprintf(" and %d more", len(x.ErrorKinds)-maxShown)
	}
	return escapeHidden(text)
}

// notices explains what is unusual about the session: it is a control session, excluded, refused, or partly opted out.
func (v *sessionView) notices() g.Node {
	return g.Group{
		g.If(v.session.SessionItem.Control, h.P(h.Class("notice"), g.Text("Control session: at the session's start, precept chose at random to give it no lessons."))),
		g.If(v.session.SessionItem.Excluded, warning("This session is outside the experiment. "+
			report.ExclusionCause(v.session.ExcludedFor))),
		g.If(v.session.SessionItem.Refused, warning("The upstream refused a request that precept had changed. precept forwards this session's later requests unchanged.")),
		g.If(len(v.session.OptedOut) > 0, warning(countNoun(len(v.session.OptedOut), "turn")+" opted out and "+
			plural(len(v.session.OptedOut), "is", "are")+" not stored.")),
	}
}

func (v *sessionView) turns(f frame) g.Node {
	turns := g.Node(g.Map(v.session.TurnItems, func(t store.TurnItem) g.Node { return turnNode(&t) }))
	if len(v.session.TurnItems) == 0 {
		turns = h.Div(h.Class("empty"), h.P(g.Text(
			"No turn is stored yet. A turn appears a few seconds after it ends.")))
	}
	turnsLink := func(from int, rel, text string) g.Node {
		return h.P(h.A(h.Href(f.WithQuery("from", strconv.Itoa(from))), h.Rel(rel), g.Text(text)))
	}
	return section(
		"turns", "Conversation",
		g.If(v.session.From > 0, turnsLink(max(0, v.session.From-store.TurnsShown), "prev", "Earlier turns")),
		turns,
		g.If(v.hasMoreTurns(), turnsLink(v.session.Next, "next", "Later turns")),
	)
}

// sameTurnsHref returns the address of a session's page, or of an action on the session. After the action, the page
// shows the same turns as before.
func (f frame) sameTurnsHref(id string, action ...string) string {
	return f.linkByName("/sessions/", id, action, "from", f.query.Get("from"), listKey, f.currentList(sessionLists()...))
}

func (s *Server) rateSession(c echo.Context) error {
	id, kind := nameParam(c, "session"), c.FormValue("type")
	p := feedback.Post{SessionID: id, Entry: feedback.Entry{
		Source: feedback.SourceUser, Tier: feedback.TierUser, Type: kind, Score: feedback.ImpliedScore(kind),
		Rater: "dashboard", Comment: strings.TrimSpace(c.FormValue("comment")),
	}}
	if kind != feedback.TypeApproval && kind != feedback.TypeRejection {
		return echo.NewHTTPError(http.StatusBadRequest, "type must be approval or rejection")
	}
	if len(p.Entry.Comment) > 4096 {
		return echo.NewHTTPError(http.StatusBadRequest, "the comment is longer than 4096 bytes")
	}
	c.Set(detailKey, kind+" for session "+idOnly(id))
	done, err := s.rate(c, queryTenant(c), p)
	if err != nil {
		return err
	}
	notice := "Your rating is stored and now counts towards the session's reward."
	if done.Status == store.Ignored {
		notice = "This session opted out, so your rating was not stored."
	} else if done.Status == store.Parked { // for example, someone else has deleted the session in the meantime
		notice = "Your rating is on hold and does not affect the reward yet: the session was deleted, or the store has not received the session's data. The Health page shows the store's lag."
	}
	return s.seeOther(c, linkFrame(c).sameTurnsHref(id), notice)
}

// forgetSession deletes a session if the form's checkbox is ticked.
func (s *Server) forgetSession(c echo.Context) error {
	id, f := nameParam(c, "session"), linkFrame(c)
	if c.FormValue("sure") != "yes" {
		return s.seeOther(c, f.sameTurnsHref(id), "Nothing was deleted: tick the box next to the button first.")
	}
	c.Set(detailKey, "session "+idOnly(id)+" deleted")
	n, err := s.erase(c, queryTenant(c), id)
	if err != nil {
		return err
	}
	return s.seeOther(c, f.Link("/sessions"), ifElse(n == 0, "Nothing was stored for this session.",
		"The session is deleted: record, turns, samples and feedback."))
}

// idOnly returns text if it is a session id, and otherwise a placeholder. A name from a client is personal data, so
// the audit log must not keep the name.
func idOnly(text string) string {
	if len(text) == 32 && strings.Trim(text, "0123456789abcdef") == "" {
		return text
	}
	return "(by name)"
}
