package admin

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"
	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"precept/bandit/report"
	"precept/internal/price"
	"precept/store"
)

// Prices holds the operator's prices, in one currency.
type Prices struct {
	Models       *price.Table // nil: no price is known
	SuccessValue float64      // value of a success in place of a failure (admin.session_value); 0: unknown
	Currency     string
}

// priceFunc returns a function that returns a model's price, or nil if the price is unknown. The function looks up each
// model only once, because a look-up searches patterns.
func (p *Prices) priceFunc() func(model string) *price.Price {
	prices := map[string]*price.Price{}
	return func(model string) *price.Price {
		modelPrice, known := prices[model]
		if !known {
			if found, ok := p.Models.Price(model); ok {
				modelPrice = &found
			}
			prices[model] = modelPrice
		}
		return modelPrice
	}
}

// costFunc returns a function that returns a session's cost, or nil if the session has no input tokens or if one of
// its models has no price.
func (p *Prices) costFunc() func(x *store.SessionItem) *float64 {
	priceOf := p.priceFunc()
	return func(x *store.SessionItem) *float64 {
		sum := 0.0
		for i := range x.Models {
			modelPrice := priceOf(x.Models[i].Model)
			if modelPrice == nil {
				return nil
			}
			sum += modelPrice.Cost(x.Models[i].Tokens())
		}
		if x.Input <= 0 {
			return nil
		}
		return &sum
	}
}

// setCosts sets the sessions' costs, in total and by model.
func (p *Prices) setCosts(list ...*store.SessionItem) {
	priceOf, priceSession := p.priceFunc(), p.costFunc()
	for _, x := range list {
		x.Cost = priceSession(x)
		x.Models = append([]store.ModelUsage{}, x.Models...) // a copy, because pages share the sessions
		for i := range x.Models {
			if modelPrice := priceOf(x.Models[i].Model); modelPrice != nil {
				x.Models[i].Cost = new(modelPrice.Cost(x.Models[i].Tokens()))
			}
		}
	}
}

// unpricedModels names the models without a price in a session with costs.
func unpricedModels(x *store.SessionItem) (names []string) {
	for i := range x.Models {
		if x.Models[i].Cost == nil {
			names = append(names, cmp.Or(escapeHidden(shortenName(x.Models[i].Model)), "(none)"))
		}
	}
	return names
}

// CompareSection compares the input of sessions with and without a section of a rules file: tokens, cached share and
// money. Prices are weighted by each model's picks (random decisions). CompareSection returns "" until sessions with
// and without the section have reported tokens.
func (p *Prices) CompareSection(r *report.Row) string {
	if r.InputWith == nil || r.InputWithout == nil || r.CachedWith == nil || r.CachedChange == nil {
		return ""
	}
	with, without := *r.CachedWith, *r.CachedWith-*r.CachedChange
	var uncached, cached float64 // uncached and cached input prices, weighted by picks and added up
	var picks float64
	for i := range r.Models.Effects {
		if modelPrice, ok := p.Models.Price(r.Models.Effects[i].Model); ok {
			n := float64(r.Models.Effects[i].Picks)
			uncached, cached, picks = uncached+n*modelPrice.Input, cached+n*modelPrice.Cached, picks+n
		}
	}
	cost := func(input, share float64) float64 {
		return input * ((1-share)*uncached + share*cached) / picks / 1e6
	}
	text := func(input, share float64) string {
		s := fmt.Sprintf("%s input tokens a session, %.0f%% cached", report.GroupedAmount(input, 0), 100*share)
		if picks > 0 {
			s += ", " + p.amount(cost(input, share))
		}
		return s
	}
	note := "with the section: " + text(*r.InputWith, with) + "; without: " + text(*r.InputWithout, without)
	if picks > 0 {
		verb, more := "costs", (cost(*r.InputWithout, without)-cost(*r.InputWith, with))*float64(r.NWithheld)
		if more < 0 {
			verb, more = "saves", -more
		}
		note += fmt.Sprintf("; so far the measurement %s about %s in %s without the section", verb, p.amount(more), countNoun(r.NWithheld, "rewarded session"))
	}
	return note
}

func (p *Prices) amount(x float64) string {
	text := report.GroupedAmount(x, ifElse(x < 1, 4, 2))
	if p.Currency != "" {
		text += "\u00a0" + p.Currency
	}
	return text
}

// singlePrice returns the price shared by all models, or nil if models differ or no price is known.
func (p *Prices) singlePrice() *price.Price {
	if p.Models == nil || len(p.Models.Entries) > 0 {
		return nil
	}
	return p.Models.Fallback
}

// withInputPrice returns p with one input price for all models, or p unchanged if text is not a price.
func (p Prices) withInputPrice(text string) Prices {
	if x, err := strconv.ParseFloat(text, 64); err == nil && x > 0 && x < 1e6 {
		cached := 0.0
		if flat := p.singlePrice(); flat != nil {
			cached = flat.Cached
		}
		p.Models = price.Flat(x, cached)
	}
	return p
}

// meanPrice is the mean price of input over sessions, weighted by input tokens.
type meanPrice struct {
	price    price.Price
	sessions int // sessions with a price; 0 if all models have one price
	known    bool
	reading  bool     // sessions are being read
	unknown  int      // sessions with an unpriced model
	models   []string // models without a price
}

// mean returns the mean price over the selected sessions, or the price of all models if they have the same price.
func (p *Prices) mean(list []store.SessionItem, selects func(x *store.SessionItem) bool) (m meanPrice) {
	if modelPrice := p.singlePrice(); modelPrice != nil {
		return meanPrice{price: *modelPrice, known: true}
	}
	var uncached, cached float64 // uncached and cached input prices, weighted by tokens and added up
	var input float64
	for i := range list {
		x := &list[i]
		if x.Input <= 0 || !selects(x) {
			continue
		}
		modelPrice, ok := p.Models.Price(x.Model)
		if !ok {
			m.unknown++
			if !slices.Contains(m.models, x.Model) {
				m.models = append(m.models, x.Model)
			}
			continue
		}
		weight := float64(x.Input)
		m.sessions, m.known = m.sessions+1, true
		uncached, cached, input = uncached+weight*modelPrice.Input, cached+weight*modelPrice.Cached, input+weight
	}
	if m.known {
		m.price.Input, m.price.Cached = uncached/input, cached/input
	}
	return m
}

// note explains the price and names models without one.
func (m *meanPrice) note(p *Prices) g.Node {
	var text []string
	if p.Models != nil && p.Models.BuiltInDate != "" && m.known {
		text = append(text, "The cost uses built-in list prices from "+p.Models.BuiltInDate+"; set your own prices in the configuration (key prices).")
	}
	if m.sessions > 0 {
		text = append(text, "Input price: the mean over "+countNoun(m.sessions, "session")+".")
	}
	if m.unknown > 0 {
		const maxModels = 3
		names := make([]string, 0, maxModels)
		for _, name := range m.models[:min(len(m.models), maxModels)] {
			names = append(names, cmp.Or(escapeHidden(shortenName(name)), "(none)"))
		}
		more := ifElse(len(m.models) > maxModels, fmt.Sprintf(" and %d more", len(m.models)-maxModels), "")
		text = append(text, fmt.Sprintf("%s %s a model without a price (%s%s)%s. Add the model to prices in the configuration.",
			countNoun(m.unknown, "session"), plural(m.unknown, "uses", "use"), strings.Join(names, ", "), more, ifElse(m.known, ", counted at the mean price", "")))
	}
	return g.If(len(text) > 0, h.P(h.Class("quiet"), g.Text(strings.Join(text, " "))))
}

// weeklyMeanPrice returns the mean price over the selected sessions in the last seven days, or over all sessions in
// these days if the selected sessions have no tokens.
func (s *Server) weeklyMeanPrice(c echo.Context, tenant string, p *Prices, selects func(x *store.SessionItem) bool) meanPrice {
	if p.Models == nil || p.singlePrice() != nil {
		return p.mean(nil, selects)
	}
	zone := params{c: c}
	_, seconds := s.options.Now().In(zone.zone()).Zone()
	r, _, err := s.recentSessions.get(c.Request().Context(), recentKey{Tenant: tenant, Range: "7d", Zone: seconds}, maxPageWait)
	m := p.mean(r.Sessions, selects)
	if m.sessions+m.unknown == 0 {
		m = p.mean(r.Sessions, func(*store.SessionItem) bool { return true })
	}
	m.reading = err != nil
	return m
}
