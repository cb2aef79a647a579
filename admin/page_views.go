package admin

import (
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"
	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

const versionField = "version" // view version shown on the page

type viewsView struct{ list []View }

func (s *Server) viewsPage(c echo.Context) error {
	list, err := s.viewsFor(c)
	v := viewsView{list}
	return s.show(c, pageContent{Title: "saved views", Main: v.html, Err: err})
}

func (v *viewsView) html(f frame) g.Node {
	return g.Group{
		f.breadcrumb("/sessions"),
		title("Saved views", mutedText(g.Text("Saved session filters, shared by everyone who logs in."))),
		g.Iff(f.page.Err == nil && len(v.list) == 0, func() g.Node {
			return emptyState("No saved view", h.P(g.Text("Choose filters on the "), h.A(h.Href(f.Link("/sessions")), g.Text("Sessions")), g.Text(" page, then "), h.Strong(g.Text("Save this filter")), g.Text(".")))
		}),
		g.Iff(len(v.list) > 0, func() g.Node {
			return scrollRegion(ariaLabel("Saved views"), h.Table(
				h.Class("list cards"), headingRow(wordColumns("Name"), wordColumns("Filters"), wordColumns("Saved"), g.If(f.MayAct, wordColumns("Change"))),
				h.TBody(g.Map(v.list, func(w View) g.Node { return w.row(f) })),
			))
		}),
	}
}

// href returns a link to the view's sessions, in the current order.
func (v *View) href(f frame) string {
	q := v.filters()
	q.Set("view", v.ID)
	return listHref(f, q)
}

// listHref returns the list with filters, in the current tenant and order.
func listHref(f frame, filters url.Values) string {
	for _, key := range []string{"tenant", "order"} {
		if value := f.query.Get(key); value != "" {
			filters.Set(key, value)
		}
	}
	return address("/sessions", filters)
}

// row returns the view with forms that rename and delete it.
func (v *View) row(f frame) g.Node {
	filters := v.filters()
	id := "name-" + v.ID
	return h.Tr(
		rowHead(h.Class("name wrap"), h.A(h.Href(v.href(f)), untrustedText(v.Name))),
		cell("Filters", h.Class("text wrap"), limitedList(slices.Sorted(maps.Keys(filters)), h.Span, func(key string) g.Node {
			return h.Span(h.Class("slug"), h.Span(h.Class("quiet"), g.Text(strings.ReplaceAll(key, "_", " ")+" ")), untrustedText(shortenName(filters.Get(key))))
		})),
		cell("Saved", h.Class("text when"), timeNode(v.Saved), smallLine(untrustedText(v.By))),
		g.If(f.MayAct, cell("Change", h.Class("text"), h.Div(
			h.Class("view-forms"),
			h.Form(
				h.Method("post"), h.Action(f.Link("/views/"+url.PathEscape(v.ID)+"/rename")), f.csrfInput(), hiddenField(versionField, v.version()),
				h.Label(h.For(id), h.Class("hidden-text"), g.Text("New name for "+escapeHidden(v.Name))),
				h.Input(h.ID(id), h.Name("name"), h.Value(escapeHidden(v.Name)), h.MaxLength("80"), h.Required(), g.Attr("size", "18")),
				h.Button(g.Text("Rename")),
			),
			h.Details(
				h.Class("asks"), h.Summary(h.Class("button danger"), g.Text("Delete …")),
				h.Form(
					h.Method("post"), h.Action(f.Link("/views/"+url.PathEscape(v.ID)+"/delete")), f.csrfInput(), hiddenField(versionField, v.version()),
					h.P(g.Text("The view is deleted for everyone. No session is deleted.")),
					h.Button(h.Class("danger"), g.Text("Delete "), untrustedText(v.Name)),
				),
			),
		))),
	)
}

// viewLinks returns links to the saved views, and a form that saves this page's filters.
func (v *sessionsView) viewLinks(f frame) g.Node {
	saved, currentFilters := f.query.Get("view"), onlyFilters(f.query)
	var current *View // the view with this page's filters
	for i := range v.views {
		if w := &v.views[i]; w.ID == saved {
			current = w
		}
	}
	changed := current != nil && current.Query != currentFilters.Encode()
	shown := v.views[:min(len(v.views), maxHiddenValues)]
	return h.Section(
		ariaLabelledBy("facet-views"), h.H2(h.ID("facet-views"), g.Text("Saved views")),
		g.If(len(shown) > 0, h.Ul(g.Map(shown, func(w View) g.Node {
			return h.Li(h.A(
				h.Href(w.href(f)), g.If(current != nil && current.ID == w.ID, h.Aria("current", "true")), h.Title("Saved by "+escapeHidden(w.By)),
				h.Span(h.Class("value"), untrustedText(w.Name)),
			))
		}))),
		g.If(len(v.views) == 0 && len(currentFilters) == 0, mutedText(g.Text("Choose filters to save them as a view."))),
		g.Iff(f.MayAct && len(currentFilters) > 0 && (current == nil || changed), func() g.Node {
			hidden := g.Group{f.csrfInput(), g.Map(slices.Sorted(maps.Keys(currentFilters)), func(key string) g.Node { return hiddenField(key, currentFilters.Get(key)) })}
			return g.Group{
				g.Iff(changed, func() g.Node {
					return h.Form(
						h.Method("post"), h.Action(f.Link("/views/"+url.PathEscape(current.ID)+"/update", "order", f.query.Get("order"))), hidden, hiddenField(versionField, current.version()),
						h.Button(g.Text("Update "), untrustedText(current.Name)),
					)
				}),
				h.Details(
					h.Class("save-view"), h.Summary(g.Text("Save this filter")),
					h.Form(
						h.Method("post"), h.Action(f.Link("/views", "order", f.query.Get("order"))), hidden,
						h.Label(h.For("view-name"), g.Text("Name")),
						h.Input(h.ID("view-name"), h.Name("name"), h.MaxLength("80"), h.Required(), g.Attr("size", "16")),
						h.Button(h.Class("main"), g.Text("Save")),
					),
				),
			}
		}),
		g.If(len(v.views) > 0, h.P(h.Class("note"), h.A(h.Href(f.Link("/views", listKey, f.currentList("/sessions"))), g.Text(ifElse(f.MayAct, "Rename, delete, authors", "All views with authors"))))),
	)
}

func (s *Server) saveView(c echo.Context) error {
	return s.changeView(c, "", "saved", func(w *View, form url.Values) {
		w.Name, w.Query = strings.TrimSpace(form.Get("name")), onlyFilters(form).Encode()
		w.By, w.Saved = requestHolder(c).String(), s.options.Now().UTC()
	})
}

// actOnView handles POST /views/{view}/{action}: rename, update and delete.
func (s *Server) actOnView(c echo.Context) error {
	id := param(c, "view")
	switch c.Param("action") {
	case "rename":
		return s.changeView(c, id, "renamed", func(w *View, form url.Values) { w.Name = strings.TrimSpace(form.Get("name")) })
	case "update":
		return s.changeView(c, id, "updated", func(w *View, form url.Values) {
			w.Query, w.By, w.Saved = onlyFilters(form).Encode(), requestHolder(c).String(), s.options.Now().UTC()
		})
	case "delete":
		view, err := s.views.remove(c.Request().Context(), queryTenant(c), id, func(w *View) error { return w.checkVersion(c.FormValue(versionField)) })
		if err != nil {
			return s.answerViewError(c, err)
		}
		c.Set(detailKey, "view "+view.ID+" deleted")
		return s.seeOther(c, linkFrame(c).Link("/views"), "The view "+view.Name+" is deleted.")
	}
	return echo.ErrNotFound
}

// changeView applies change to a view, or to a new view if id is empty. Then changeView redirects to the view's
// sessions, or to the views page after a rename. The notice contains verb, such as "saved".
func (s *Server) changeView(c echo.Context, id, verb string, change func(w *View, form url.Values)) error {
	form, err := c.FormParams()
	if err != nil {
		return echo.NewHTTPError(http.StatusBadRequest, "the form cannot be read").SetInternal(err)
	}
	view, err := s.views.change(c.Request().Context(), queryTenant(c), id, s.options.Random, func(w *View) error {
		if id != "" {
			if err := w.checkVersion(form.Get(versionField)); err != nil {
				return err
			}
		}
		change(w, form)
		return nil
	})
	if err != nil {
		return s.answerViewError(c, err)
	}
	c.Set(detailKey, "view "+view.ID+" "+verb)
	if verb == "renamed" {
		return s.seeOther(c, linkFrame(c).Link("/views"), "The view is now named "+view.Name+".")
	}
	return s.seeOther(c, view.href(linkFrame(c)), "The view "+view.Name+" is "+verb+" for everyone who logs in.")
}

// answerViewError redirects a browser to the form with the reason, and sends programs the error.
func (s *Server) answerViewError(c echo.Context, err error) error {
	refused := new(echo.HTTPError)
	if !errors.As(err, &refused) {
		return storeError(err)
	}
	if _, browser := c.Get(browserSessionKey).(*browserSession); !browser {
		return err
	}
	form, _ := c.FormParams() // the form was parsed before without an error
	back := linkFrame(c).Link("/views")
	if q := onlyFilters(form); len(q) > 0 {
		if id := param(c, "view"); id != "" {
			q.Set("view", id)
		}
		back = listHref(linkFrame(c), q)
	}
	text, _ := refused.Message.(string)
	return s.seeOther(c, back, "Nothing was saved: "+text+".")
}
