package admin

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"precept/store"
)

type runView struct {
	run    store.RunSessions
	prices Prices
}

func (s *Server) readRun(c echo.Context) (store.RunSessions, error) {
	run, err := s.options.Read.Archive.Run(c.Request().Context(), queryTenant(c), nameParam(c, "run"))
	if errors.Is(err, store.ErrNoSession) {
		return run, echo.NewHTTPError(http.StatusNotFound, "the run has no stored data: it is unknown, the sessions are deleted or opted out, or the first turns are not stored yet")
	}
	s.setCosts(run.Sessions)
	return run, storeError(err)
}

func (s *Server) apiRun(c echo.Context) error {
	run, err := s.readRun(c)
	return sendJSON(c, run, err)
}

func (s *Server) runPage(c echo.Context) error {
	run, err := s.readRun(c)
	if err != nil {
		return s.show(c, pageContent{Title: "Unknown run", Main: noSessionPage, Err: err})
	}
	v := runView{run, s.options.Program.Prices()}
	return s.show(c, pageContent{Title: "run " + run.Name, Main: v.html, Live: run.Verdict == store.StillOpen})
}

func (v *runView) html(f frame) g.Node {
	var turns, errors, loops int
	var input, output int64
	var cost *float64 // known costs added up
	unpriced := 0     // sessions with tokens but no known cost
	var first, last time.Time
	listed := map[string]bool{} // by ID
	for i := range v.run.Sessions {
		listed[v.run.Sessions[i].ID] = true
	}
	for i := range v.run.Sessions {
		x := &v.run.Sessions[i]
		turns, loops = turns+x.Turns, loops+x.Loops
		switch {
		case listed[x.Parent]: // the parent's input and cost include the sub-agent's
		case x.Cost != nil:
			if cost == nil {
				cost = new(float64)
			}
			input, *cost = input+x.Input, *cost+*x.Cost
		default:
			input += x.Input
			if x.Input > 0 || x.Output != nil && *x.Output > 0 {
				unpriced++
			}
		}
		if x.Errors != nil {
			errors += *x.Errors
		}
		if x.Output != nil {
			output += *x.Output
		}
		if first.IsZero() {
			first = x.Started
		}
		if ended := x.Started.Add(time.Duration(x.Seconds * float64(time.Second))); ended.After(last) {
			last = ended
		}
	}
	spent := spendingStat(&v.prices, cost, input, &output, nil)
	if cost != nil && unpriced > 0 {
		spent.note += fmt.Sprintf("; the cost excludes %s without a price", countNoun(unpriced, "session"))
	}
	return g.Group{
		f.breadcrumb(sessionLists()...),
		title("Run "+v.run.Name, mutedText(g.Text("A run's sessions work on one task, get or miss the same lessons, and share the reward."))),
		statList([]stat{
			newStat("session-reward", decimalText(v.run.Reward, 2), v.run.Verdict, verdictTone(v.run.Verdict)),
			newStat("turns", countText(turns), countNoun(len(v.run.Sessions)+v.run.Unlisted, "session"), ""),
			newStat("duration", durationText(last.Sub(first).Seconds()), "", ""),
			spent,
			newStat("errors", countText(errors), "", ifElse(errors > 0, "warn", "")),
			newStat("loops", countText(loops), "", ifElse(loops > 0, "warn", "")),
		}),
		ifElse(len(v.run.Sessions) > 0,
			sessionTable(f, g.Text("Oldest first."), nil, v.run.Sessions, v.prices),
			emptyState("No session in this run is stored", h.P(g.Text("The sessions are deleted, opted out, or not stored yet.")))),
		g.If(v.run.Unlisted > 0, mutedText(g.Text(countText(v.run.Unlisted)+" further sessions are not listed."))),
	}
}

// spendingStat returns the sessions' cost and tokens, or only the tokens if cost is nil. unpriced names the models
// without a price.
func spendingStat(p *Prices, cost *float64, input int64, output *int64, unpriced []string) stat {
	all := input
	if output != nil {
		all += *output
	}
	if cost == nil {
		note := "tokens; no model price"
		if len(unpriced) > 0 {
			note = "tokens; no price for " + strings.Join(unpriced, ", ")
		}
		return newStat("spending", countText(all), ifElse(p.Models != nil && input > 0, note, "tokens"), "")
	}
	return newStat("spending", p.amount(*cost), countText(all)+" tokens", "")
}
