package admin

import (
	"fmt"
	"slices"
	"strings"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"precept/store"
)

// strip is a row of bars, one per bucket, with a scale of its own.
type strip struct {
	name  string
	term  string // glossary key for the name, if any
	tone  string // CSS class for the bars; empty: default colour
	kind  string // error kind by which the linked session list is filtered; empty: every kind
	value func(t *TrafficSum) float64
	text  func(x float64) string // nil: whole numbers
}

func (s *strip) format(x float64) string {
	if s.text != nil {
		return s.text(x)
	}
	return countText(int64(x))
}

func (v *trafficView) sessionStrips() []strip {
	return []strip{
		{name: "Sessions", value: func(t *TrafficSum) float64 { return float64(t.Sessions) }},
		{name: "Turns", term: "turns", value: func(t *TrafficSum) float64 { return float64(t.Turns) }},
	}
}

// maxStatuses bounds the strips for failed replies.
const maxStatuses = 6

func (v *trafficView) shownStatuses() []store.FacetValue {
	list := slices.Clone(v.traffic.Sum.Statuses)
	slices.SortStableFunc(list, func(x, y store.FacetValue) int { return y.Sessions - x.Sessions })
	return list[:min(len(list), maxStatuses)]
}

func (v *trafficView) failureStrips() (out []strip) {
	for _, status := range v.shownStatuses() {
		out = append(out, strip{
			name: "Sessions with a failed reply, status " + escapeHidden(shortenName(status.Value)), tone: "bad", kind: upstreamKind + status.Value,
			value: func(t *TrafficSum) float64 { return float64(t.sessionsWith(status.Value)) },
		})
	}
	if v.traffic.Sum.Errors > 0 {
		out = append(out, strip{name: "Failed tool results", tone: "warn", value: func(t *TrafficSum) float64 { return float64(t.Errors) }})
	}
	return out
}

// failureNotes explains failures and names those not charted.
func (v *trafficView) failureNotes() g.Node {
	t := &v.traffic.Sum
	statuses := len(t.Statuses)
	return g.Group{
		g.If(statuses == 0, mutedText(g.Text("No session has a failed reply from a model API."))),
		g.If(statuses > 0, mutedText(
			g.Textf("A reply from a model API failed in %s of %s. ", countText(t.Failed), countNoun(t.Sessions, "session")),
			g.Text("A status of 400 or more is a failure, such as 429 for too many requests. A session counts once per status. "),
			g.If(statuses > maxStatuses, g.Textf("The charts show the %d most frequent of %d statuses.", maxStatuses, statuses)),
		)),
		g.If(t.Errors == 0 && t.Unknown < t.Sessions, mutedText(g.Text("No session has a failed tool result."))),
		g.If(t.Unknown > 0, mutedText(g.Textf("Some turns in %s are unknown, such as turns from an older release; failed tool results and output tokens in these sessions are not counted.", countNoun(t.Unknown, "session")))),
	}
}

func (v *trafficView) tokenStrips() []strip {
	out := []strip{
		{name: "Input", value: func(t *TrafficSum) float64 { return float64(t.Input) }},
		{name: "Cached input", tone: "quiet", value: func(t *TrafficSum) float64 { return float64(t.Cached) }},
		{name: "Output", value: func(t *TrafficSum) float64 { return float64(t.Output) }},
	}
	if v.traffic.Sum.Written > 0 {
		out = slices.Insert(out, 2, strip{name: "Cache writes", tone: "quiet", value: func(t *TrafficSum) float64 { return float64(t.Written) }})
	}
	if v.traffic.Sum.Cost != nil {
		out = append(out, strip{name: "Cost", term: "spending", tone: "good", text: v.prices.amount, value: func(t *TrafficSum) float64 {
			if t.Cost == nil {
				return 0
			}
			return *t.Cost
		}})
	}
	return out
}

// costNotes names sessions without a cost and says where prices come from.
func (v *trafficView) costNotes() g.Node {
	t := &v.traffic.Sum
	mean := meanPrice{known: t.Cost != nil}
	return g.Group{
		g.If(t.Unpriced > 0, mutedText(g.Textf("The cost leaves out %s without a model price. Add the model to prices in the configuration.", countNoun(t.Unpriced, "session")))),
		mean.note(&v.prices),
	}
}

// chart returns strips of bars, and the numbers as a table.
func (v *trafficView) chart(f frame, id, name string, strips []strip, notes ...g.Node) g.Node {
	t := &v.traffic
	return section(
		id, name, g.Group(notes),
		g.Iff(len(strips) > 0, func() g.Node {
			return g.Group{
				g.Map(strips, func(s strip) g.Node { return v.bars(f, &s) }),
				h.P(h.Class("axis quiet"), h.Span(g.Text(v.label(t.Buckets[0].Since))), h.Span(g.Text(v.label(t.Buckets[len(t.Buckets)-1].Since)))),
				collapsible(name+", as a table", grid(
					ariaLabel(name+" over time"),
					headingRow(wordColumns("Started, "+v.zoneName()), g.Map(strips, func(s strip) g.Node { return numberColumn(g.Text(s.name)) })),
					g.Map(t.Buckets, func(b TrafficBucket) g.Node {
						return g.If(b.Sum.Sessions > 0, h.Tr(
							rowHead(h.A(h.Href(v.bucketSessions(f, &b)), g.Text(v.label(b.Since)))),
							g.Map(strips, func(s strip) g.Node { return numberCells(s.format(s.value(&b.Sum))) }),
						))
					}),
				)),
			}
		}),
	)
}

// bars returns a strip with the total and the highest bar. Screen readers and the keyboard use the table instead.
func (v *trafficView) bars(f frame, s *strip) g.Node {
	const width, height = 10, 48.0
	t, maxValue := &v.traffic, 0.0
	for i := range t.Buckets {
		maxValue = max(maxValue, s.value(&t.Buckets[i].Sum))
	}
	rect := func(class string, x, y, width, height float64) g.Node {
		return g.El("rect", h.Class(class), g.Attr("x", coordinate(x)), g.Attr("y", coordinate(y)), g.Attr("width", coordinate(width)), g.Attr("height", coordinate(height)))
	}
	var bars g.Group
	for i := range t.Buckets {
		b := &t.Buckets[i]
		x := s.value(&b.Sum)
		if x <= 0 {
			continue
		}
		left, size := float64(i*width), max(height*x/maxValue, 1)
		bars = append(bars, h.A(
			g.If(s.canListSessions(f), h.Href(v.bucketSessions(f, b, s.query()...))), h.TabIndex("-1"), g.El("title", g.Text(v.label(b.Since)+": "+s.format(x))),
			rect("hit", left, 0, width, height), rect("bar", left+1, height-size, width-2, size),
		))
	}
	name := g.Node(h.Span(g.Text(s.name)))
	if s.term != "" {
		name = termButton(s.term)
	}
	return h.Div(
		h.Class("strip"),
		h.P(name, space(), h.Strong(g.Text(s.format(s.value(&t.Sum)))), h.Span(h.Class("quiet"), g.If(!t.Complete, g.Text(" "+v.basis(t))), g.Text(", at most "+s.format(maxValue)+" in "+v.barLength()))),
		h.SVG(
			h.Class("traffic "+s.tone), g.Attr("viewBox", fmt.Sprintf("0 0 %d %g", width*len(t.Buckets), height)), g.Attr("preserveAspectRatio", "none"),
			h.Aria("hidden", "true"), bars,
		),
	)
}

// query returns the filters for the list of sessions that a bar counts, without the time.
func (s *strip) query() []string {
	if s.kind == "" {
		return nil
	}
	return []string{"error_kind", s.kind}
}

// canListSessions reports whether the session list can show exactly the sessions that a bar counts. The list can filter
// by one error kind only, so the page's filter must not name a different kind.
func (s *strip) canListSessions(f frame) bool {
	kind := f.query.Get("error_kind")
	return s.kind == "" || kind == "" || strings.EqualFold(kind, s.kind)
}
