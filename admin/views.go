package admin

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	sessionpkg "precept/internal/session"
)

// Notes reads and writes small values per tenant in the store, so replicas share them.
type Notes interface {
	EachNote(ctx context.Context, tenant, prefix string, fn func(key string, data []byte) error) error
	WriteNotes(ctx context.Context, tenant string, sessionNotes map[sessionpkg.ID][]byte, tenantNotes map[string][]byte) error
}

// View is a saved filter for the sessions page, shared by everyone who logs in.
type View struct {
	ID    string    `json:"id"`
	Name  string    `json:"name"`
	Query string    `json:"query"` // sessions page filters, as in an address
	By    string    `json:"by"`    // role, and first digits of the token's digest
	Saved time.Time `json:"saved"`
}

const (
	viewKeyPrefix = "view|" // note key prefix for views
	maxViews      = 100     // per tenant
	maxViewName   = 80      // characters
	maxViewFilter = 4 << 10 // bytes
)

// views reads and changes saved views. The lock keeps concurrent requests from exceeding maxViews.
type views struct {
	notes Notes
	mu    sync.Mutex
}

// list returns the views sorted by name.
func (v *views) list(ctx context.Context, tenant string) ([]View, error) {
	list := []View{}
	err := v.notes.EachNote(ctx, tenant, viewKeyPrefix, func(key string, data []byte) error {
		var view View
		if json.Unmarshal(data, &view) == nil { // skips views from a newer release
			view.ID = strings.TrimPrefix(key, viewKeyPrefix)
			list = append(list, view)
		}
		return nil
	})
	slices.SortFunc(list, func(a, b View) int {
		return cmp.Or(strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)), strings.Compare(a.ID, b.ID))
	})
	return list, err
}

// change edits and writes a view, or writes nothing if edit fails. An empty id makes a new view with an id from random.
func (v *views) change(ctx context.Context, tenant, id string, random io.Reader, edit func(*View) error) (view View, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	list, err := v.list(ctx, tenant)
	if err != nil {
		return view, err
	}
	i := slices.IndexFunc(list, func(w View) bool { return w.ID == id })
	switch {
	case id != "" && i < 0:
		return view, errNoView
	case id != "":
		view = list[i]
	case len(list) >= maxViews:
		return view, badRequest(fmt.Sprintf("a tenant has at most %d saved views; delete a view first", maxViews))
	default:
		var b [8]byte
		if _, err := io.ReadFull(random, b[:]); err != nil {
			return view, fmt.Errorf("make an id: %w", err)
		}
		view.ID = hex.EncodeToString(b[:])
	}
	if err := edit(&view); err != nil {
		return view, err
	}
	if err := view.check(); err != nil {
		return view, err
	}
	if slices.ContainsFunc(list, func(w View) bool { return w.ID != view.ID && strings.EqualFold(w.Name, view.Name) }) {
		return view, badRequest("another view has the name " + view.Name + "; choose another name, or delete that view first")
	}
	data, err := json.Marshal(&view)
	if err != nil {
		return view, fmt.Errorf("encode a view: %w", err)
	}
	return view, v.notes.WriteNotes(ctx, tenant, nil, map[string][]byte{viewKeyPrefix + view.ID: data})
}

// remove deletes a view unless check returns an error.
func (v *views) remove(ctx context.Context, tenant, id string, check func(*View) error) (view View, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	list, err := v.list(ctx, tenant)
	if err != nil {
		return view, err
	}
	i := slices.IndexFunc(list, func(w View) bool { return w.ID == id })
	if i < 0 {
		return view, errNoView
	}
	if err := check(&list[i]); err != nil {
		return view, err
	}
	return list[i], v.notes.WriteNotes(ctx, tenant, nil, map[string][]byte{viewKeyPrefix + id: nil})
}

var errNoView = echo.NewHTTPError(http.StatusNotFound, "the view does not exist any more; another person may have deleted it")

// version returns a digest of name and filters.
func (v *View) version() string {
	sum := sha256.Sum256([]byte(v.Name + "\n" + v.Query))
	return hex.EncodeToString(sum[:8])
}

// checkVersion returns an error if the view has changed since a form showed the version in seen. Programs and older
// pages send no version.
func (v *View) checkVersion(seen string) error {
	if seen == "" || seen == v.version() {
		return nil
	}
	return echo.NewHTTPError(http.StatusConflict, "the view was changed since the page was loaded: the name is "+escapeHidden(v.Name)+", and the filters are "+escapeHidden(v.Query)+"; repeat the action to change this view")
}

func (v *View) check() error {
	switch {
	case v.Name == "":
		return badRequest("a view needs a name")
	case utf8.RuneCountInString(v.Name) > maxViewName:
		return badRequest(fmt.Sprintf("the view name is longer than %d characters; shorten it", maxViewName))
	case !utf8.ValidString(v.Name) || strings.ContainsFunc(v.Name, func(r rune) bool { return !unicode.IsPrint(r) }):
		return badRequest("the view name has characters that cannot be shown; remove them")
	case v.Query == "":
		return badRequest("a view needs a filter; choose filters first")
	case len(v.Query) > maxViewFilter:
		return badRequest(fmt.Sprintf("the view's filters are longer than %d bytes; use fewer", maxViewFilter))
	}
	return nil
}

func (v *View) filters() url.Values {
	q, _ := url.ParseQuery(v.Query) // no error: onlyFilters wrote the query
	return q
}

// isTextSearch reports whether the view searches conversations, which viewers are not allowed to read.
func (v *View) isTextSearch() bool {
	q := v.filters()
	return q.Get("words")+q.Get("tool")+q.Get("error") != ""
}

// onlyFilters returns the filters in a query, without other keys such as "page".
func onlyFilters(q url.Values) url.Values {
	out := url.Values{}
	for _, key := range sessionFilters() {
		if value := q.Get(key); value != "" {
			out.Set(key, value)
		}
	}
	return out
}

// viewsFor returns the visible views; viewers do not see views that search conversations.
func (s *Server) viewsFor(c echo.Context) ([]View, error) {
	list, err := s.views.list(c.Request().Context(), queryTenant(c))
	if requestHolder(c).role == viewer {
		list = slices.DeleteFunc(list, func(w View) bool { return w.isTextSearch() })
	}
	return list, storeError(err)
}

func (s *Server) apiViews(c echo.Context) error {
	list, err := s.viewsFor(c)
	return sendJSON(c, ViewList{list}, err)
}

// ViewList is the response of GET /api/views.
type ViewList struct {
	Views []View `json:"views"`
}
