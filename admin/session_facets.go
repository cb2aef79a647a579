package admin

import (
	"strings"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"precept/store"
)

const (
	maxShownValues  = 7  // facet values shown without a click
	maxHiddenValues = 60 // further values shown by a click on "more"
)

// facet is a list of values with counts; a click filters the sessions.
type facet struct {
	key, name string
	values    []store.FacetValue
}

// simpleFacets returns all facets except lessons. A lesson has several counts (lessonFacet).
func simpleFacets(x *store.Facets) []facet {
	return []facet{
		{"verdict", "Verdict", x.Verdicts},
		{"agent", "Agent", x.Agents},
		{"model", "Model", x.Models},
		{"error_kind", "Error kind", x.ErrorKinds},
		{"tool_name", "Tool", x.Tools},
		{"run", "Run", x.Runs},
		{"tag", "Tag", x.Tags},
		{"length", "Task length", x.Lengths},
	}
}

// sidebar returns saved views, time ranges and facets. On a phone, page.js collapses the sidebar.
func (v *sessionsView) sidebar(f frame, views g.Node) g.Node {
	all := simpleFacets(&v.facets)
	var parts g.Group
	for i := range all {
		parts = append(parts, all[i].html(f))
		if i == 0 {
			parts = append(parts, v.lessonFacet(f))
		}
	}
	return h.Aside(
		h.Class("facets"), ariaLabel("Filters with counts"),
		h.Details(
			h.Class("sidebar"), g.Attr("open"), h.Summary(g.Text(ifElse(views == nil, "Filters with counts", "Views and filters with counts"))),
			h.Div(
				views, v.ranges(f),
				g.If(v.counting, mutedText(g.Text("The filters are being counted."))),
				g.If(!v.counting, parts),
				g.If(!v.counting && v.facets.RowsRead > 0, h.P(
					h.Class("quiet note"), g.Textf("Counted in %s", countNoun(v.facets.RowsRead, "session")),
					g.If(!v.facets.Complete, g.Group{g.Text(", the newest, since "), timeNode(v.facets.OldestStart)}), g.Text("."),
					g.If(v.searched, g.Text(" The search does not change the counts.")),
				)),
			),
		),
	)
}

// ranges returns the time ranges. Days begin at the reader's midnight.
func (v *sessionsView) ranges(f frame) g.Node {
	selected := f.query.Get("range")
	return h.Section(
		ariaLabelledBy("facet-range"), h.H2(h.ID("facet-range"), g.Text("Started")),
		h.Ul(h.Class("ranges"), g.Map(append([]choice{{"", "All"}}, timeRanges()...), func(r choice) g.Node {
			return h.Li(h.A(
				h.Href(f.WithQuery("range", r.Key, "since", "", "until", "")), g.If(selected == r.Key && f.query.Get("since")+f.query.Get("until") == "", h.Aria("current", "true")),
				g.Text(r.Name),
			))
		})),
	)
}

func (fc facet) valueText(value string) string {
	if text := lengths()[value]; fc.key == "length" && text != "" {
		return text
	}
	return value
}

func (fc facet) html(f frame) g.Node {
	if len(fc.values) == 0 {
		return nil
	}
	chosen := f.query.Get(fc.key)
	item := func(value store.FacetValue) g.Node {
		selected := strings.EqualFold(value.Value, chosen)
		return h.Li(h.A(
			h.Href(f.WithQuery(fc.key, ifElse(selected, "", value.Value))), g.If(selected, h.Aria("current", "true")), h.Title(escapeHidden(value.Value)),
			h.Span(h.Class("value"), untrustedText(shortenName(fc.valueText(value.Value)))), h.Span(h.Class("count"), g.Text(countText(value.Sessions))),
		))
	}
	first, rest := fc.values[:min(len(fc.values), maxShownValues)], fc.values[min(len(fc.values), maxShownValues):]
	return h.Section(
		ariaLabelledBy("facet-"+fc.key), h.H2(h.ID("facet-"+fc.key), g.Text(fc.name)),
		h.Ul(g.Map(first, item)),
		g.If(len(rest) > 0, h.Details(
			h.Summary(g.Text(countText(len(rest))+" more"), h.Span(h.Class("hidden-text"), g.Text(" of "+fc.name))),
			h.Ul(g.Map(rest[:min(len(rest), maxHiddenValues)], item)),
		)),
	)
}

// lessonFacet counts each lesson's sessions: all that matched, those with the lesson injected, those with the lesson
// withheld, and the control sessions.
func (v *sessionsView) lessonFacet(f frame) g.Node {
	list := v.facets.Lessons
	if len(list) == 0 {
		return nil
	}
	slug, chosenFate := f.query.Get("lesson"), f.query.Get("arm")
	item := func(l store.LessonFacet) g.Node {
		fateLink := func(fate string, n int) g.Node {
			selected := slug == l.Slug && chosenFate == fate
			return g.If(n > 0 || selected, g.Group{space(), h.A(
				h.Href(ifElse(selected, f.WithQuery("lesson", "", "arm", ""), f.WithQuery("lesson", l.Slug, "arm", fate))), g.If(selected, h.Aria("current", "true")),
				ariaLabel(escapeHidden(shortenName(l.Slug))+": "+fate+", "+countNoun(n, "session")), g.Text(fate+" "+countText(n)),
			)})
		}
		selected := slug == l.Slug && (chosenFate == "" || chosenFate == store.FateMatched)
		return h.Li(
			h.A(
				h.Href(ifElse(selected, f.WithQuery("lesson", "", "arm", ""), f.WithQuery("lesson", l.Slug, "arm", ""))), g.If(selected, h.Aria("current", "true")), h.Title(escapeHidden(l.Slug)),
				h.Span(h.Class("value"), untrustedText(shortenName(l.Slug))), h.Span(h.Class("count"), g.Text(countText(l.Matched))),
			),
			h.Span(h.Class("arms"), fateLink(store.FateInjected, l.Injected), fateLink(store.FateWithheld, l.Withheld), fateLink(store.FateControl, l.Control)),
		)
	}
	first, rest := list[:min(len(list), maxShownValues)], list[min(len(list), maxShownValues):]
	return h.Section(
		ariaLabelledBy("facet-lesson"), h.H2(h.ID("facet-lesson"), g.Text("Lesson that matched")),
		h.Ul(g.Map(first, item)),
		g.If(len(rest) > 0, h.Details(
			h.Summary(g.Text(countText(len(rest))+" more"), h.Span(h.Class("hidden-text"), g.Text(" lessons"))),
			h.Ul(g.Map(rest[:min(len(rest), maxHiddenValues)], item)),
		)),
	)
}

// filterChips returns a link for each filter. The link removes the filter.
func filterChips(f frame, keys []string) g.Node {
	var links g.Group
	for _, key := range keys {
		value := f.query.Get(key)
		if value == "" || key == "arm" && f.query.Get("lesson") != "" {
			continue
		}
		name, without := filterName(key), f.WithQuery(key, "")
		if key == "lesson" {
			without = f.WithQuery("lesson", "", "arm", "")
			if arm := f.query.Get("arm"); arm != "" {
				name = "lesson " + arm
			}
		}
		links = append(links, h.Li(h.A(
			h.Href(without), ariaLabel("Remove the filter "+name+" "+escapeHidden(shortenName(value))), h.Class("chip"),
			h.Span(h.Class("quiet"), g.Text(name+" ")), untrustedText(shortenName(value)), g.Text(" ×"),
		)))
	}
	if len(links) == 0 {
		return nil
	}
	return h.Ul(h.Class("chips"), ariaLabel("Active filters"), links)
}
