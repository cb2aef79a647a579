package admin

import (
	"context"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	sessionpkg "precept/internal/session"
)

// memoryNotes is a store for notes in memory. Its keys are TENANT/KEY. The dashboard stores each saved view as a note.
type memoryNotes map[string][]byte

func (m memoryNotes) EachNote(_ context.Context, tenant, prefix string, fn func(string, []byte) error) error {
	var keys []string
	for key := range m {
		if strings.HasPrefix(key, tenant+"/"+prefix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		if err := fn(strings.TrimPrefix(key, tenant+"/"), m[key]); err != nil {
			return err
		}
	}
	return nil
}

func (m memoryNotes) WriteNotes(_ context.Context, tenant string, _ map[sessionpkg.ID][]byte, notes map[string][]byte) error {
	for key, data := range notes {
		if m[tenant+"/"+key] = data; data == nil {
			delete(m, tenant+"/"+key)
		}
	}
	return nil
}

// newBrowserClient logs in, and returns one function that gets a page and one that posts a form with this login.
func newBrowserClient(t *testing.T, f *fixture) (get func(path string) string, post func(path string, form url.Values) *http.Response) {
	t.Helper()
	cookie, csrf := f.logIn(t)
	get = func(path string) string {
		return html.UnescapeString(body(t, f.do(t, "GET", path, func(r *http.Request) { r.AddCookie(cookie) })))
	}
	post = func(path string, form url.Values) *http.Response {
		form.Set("csrf_token", csrf)
		return f.do(t, "POST", path, func(r *http.Request) {
			r.AddCookie(cookie)
			setForm(r, form)
		})
	}
	return get, post
}

func TestSavedViewIsSharedWithinTenant(t *testing.T) {
	f := newFixture(t, nil)
	get, post := newBrowserClient(t, f)
	if page := get("/sessions?verdict=poor"); !strings.Contains(page, "Save this filter") {
		t.Fatalf(`session list with a filter = %q, want substring "Save this filter"`, page)
	} else if !strings.Contains(page, `<input type="hidden" name="verdict" value="poor">`) {
		t.Fatalf(`session list with a filter = %q, want substring "<input type=\"hidden\" name=\"verdict\" value=\"poor\">"`, page)
	}
	res := post("/views", url.Values{"name": {" Bad sessions "}, "verdict": {"poor"}, "agent": {"a&b"}, "after": {"x"}})
	location := res.Header.Get("Location")
	if res.StatusCode != http.StatusSeeOther {
		t.Fatalf("save a view: status = %d, want 303", res.StatusCode)
	}
	if !strings.HasPrefix(location, "/sessions?agent=a%26b&verdict=poor&view=") {
		t.Fatalf(`save a view: location = %q, want prefix "/sessions?agent=a%%26b&verdict=poor&view="`, location)
	}
	id := location[strings.LastIndex(location, "=")+1:]
	if page := get(location); !strings.Contains(page, "The view Bad sessions is saved for everyone who logs in.") {
		t.Errorf(`session list with the saved view = %q, want substring "The view Bad sessions is saved for everyone who logs in."`, page)
	} else if !strings.Contains(page, `aria-current="true" title="Saved by operator`) {
		t.Errorf(`session list with the saved view = %q, want substring "aria-current=\"true\" title=\"Saved by operator"`, page)
	} else if strings.Contains(page, "Save this filter") {
		t.Errorf(`session list with the saved view = %q, want no "Save this filter"`, page)
	}
	if page := get("/views"); !strings.Contains(page, ">Bad sessions</a>") {
		t.Errorf(`views page = %q, want substring ">Bad sessions</a>"`, page)
	} else if !strings.Contains(page, "operator ") {
		t.Errorf(`views page = %q, want substring "operator "`, page)
	} else if !strings.Contains(page, "a&b") {
		t.Errorf(`views page = %q, want substring "a&b"`, page)
	}
	if page := get("/views?tenant=other") + get("/sessions?tenant=other"); strings.Contains(page, "Bad sessions") {
		t.Error("pages of another tenant: got the view, want no view")
	}
	if page := get("/sessions?verdict=good&view=" + id); !strings.Contains(page, "Update Bad sessions") {
		t.Error("session list with a changed filter: got no button that updates the current view, want one")
	}
	post("/views/"+id+"/update", url.Values{"verdict": {"good"}})
	post("/views/"+id+"/rename", url.Values{"name": {"Good sessions"}})
	if text := body(t, f.do(t, "GET", "/api/views", bearer(token))); !strings.Contains(text, `"name":"Good sessions","query":"verdict=good"`) {
		t.Errorf("views after the update and the renaming: got %s, want \"Good sessions\" with verdict=good", text)
	}
	if res := post("/views/"+id+"/delete", url.Values{}); res.StatusCode != http.StatusSeeOther {
		t.Errorf("delete a view: got status %d, want 303", res.StatusCode)
	}
	if text := body(t, f.do(t, "GET", "/api/views", bearer(token))); text != "{\"views\":[]}\n" {
		t.Errorf("views after the deletion: got %s, want none", text)
	}
	if res := post("/views/"+id+"/delete", url.Values{}); !strings.Contains(get(res.Header.Get("Location")), "does not exist any more") {
		t.Error("page after the view was deleted a second time: got no text \"does not exist any more\", want this text")
	}
}

func TestInvalidViewIsNotSaved(t *testing.T) {
	f := newFixture(t, nil)
	get, post := newBrowserClient(t, f)
	for i := range maxViews - 1 {
		post("/views", url.Values{"name": {fmt.Sprint("view ", i)}, "agent": {"a"}})
	}
	for want, form := range map[string]url.Values{
		"a view needs a name":               {"name": {"  "}, "agent": {"a"}},
		"a view needs a filter":             {"name": {"x"}, "page": {"3"}},
		"longer than 80 characters":         {"name": {strings.Repeat("ü", 81)}, "agent": {"a"}},
		"characters that cannot be shown":   {"name": {"a\u202eb"}, "agent": {"a"}},
		"are longer than 4096 bytes":        {"name": {"x"}, "agent": {strings.Repeat("a", 5000)}},
		"another view has the name VIEW 17": {"name": {"VIEW 17"}, "agent": {"a"}},
	} {
		page := get(post("/views", form).Header.Get("Location"))
		if !strings.Contains(page, "Nothing was saved") {
			t.Errorf(`page after an invalid view called %v = %q, want substring "Nothing was saved"`, form["name"], page)
		}
		if !strings.Contains(page, want) {
			t.Errorf("page after an invalid view called %v = %q, want substring %q", form["name"], page, want)
		}
	}
	post("/views", url.Values{"name": {strings.Repeat("ü", 80)}, "agent": {"a"}}) // the last view that a tenant may save
	if page := get(post("/views", url.Values{"name": {"one more"}, "agent": {"a"}}).Header.Get("Location")); !strings.Contains(page, "a tenant has at most 100 saved views") {
		t.Error("page after view 101: got no text \"a tenant has at most 100 saved views\", want this text")
	}
}

// A viewer sees only the views without a text search, and cannot save views. Without a CSRF token, nobody can save
// views.
func TestViewsRequireRoleAndCSRFToken(t *testing.T) {
	notes := memoryNotes{}
	f := newFixture(t, func(o *Options) {
		o.Access.Viewers, o.Write.Notes = []string{"a viewer's token"}, notes
	})
	_, post := newBrowserClient(t, f)
	post("/views", url.Values{"name": {"by agent"}, "agent": {"a"}})
	post("/views", url.Values{"name": {"by words"}, "words": {"secret plan"}})
	if text := body(t, f.do(t, "GET", "/api/views", bearer("a viewer's token"))); !strings.Contains(text, "by agent") {
		t.Errorf(`views for a viewer: body = %q, want substring "by agent"`, text)
	} else if strings.Contains(text, "by words") {
		t.Errorf(`views for a viewer: body = %q, want no "by words"`, text)
	}
	cookie, _ := f.logIn(t)
	for name, change := range map[string]func(*http.Request){
		"viewer": bearer("a viewer's token"), "no CSRF token": func(r *http.Request) { r.AddCookie(cookie) },
	} {
		res := f.do(t, "POST", "/views", func(r *http.Request) {
			change(r)
			setForm(r, url.Values{"name": {"x"}, "agent": {"a"}})
		})
		if res.StatusCode != http.StatusForbidden {
			t.Errorf("save a view (%s): status = %d, want 403", name, res.StatusCode)
		}
		if len(notes) != 2 {
			t.Errorf("save a view (%s): notes = %+v, want 2 items", name, notes)
		}
	}
}

// setForm sets the body of a request to the form.
func setForm(r *http.Request, form url.Values) {
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(form.Encode())), -1
}

// If a view has changed since a page was loaded, a form on this page must not change the view. The next page then shows
// the current name and filters of the view.
func TestOutdatedFormDoesNotChangeView(t *testing.T) {
	f := newFixture(t, nil)
	get, post := newBrowserClient(t, f)
	location := post("/views", url.Values{"name": {"bad"}, "verdict": {"poor"}}).Header.Get("Location")
	id := location[strings.LastIndex(location, "=")+1:]
	shownVersion := func() string {
		_, rest, _ := strings.Cut(get("/views"), `name="version" value="`)
		version, _, _ := strings.Cut(rest, `"`)
		return version
	}
	first := shownVersion()
	if first == "" {
		t.Fatal("version in the form on /views is empty")
	}
	if !strings.Contains(get("/sessions?verdict=good&view="+id), `name="version" value="`+first+`"`) {
		t.Fatalf(`version in the form on /views: get("/sessions?verdict=good&view="+id) = %q, want substring %q`, get("/sessions?verdict=good&view="+id), `name="version" value="`+first+`"`)
	}
	post("/views/"+id+"/rename", url.Values{"name": {"worst"}, "version": {first}}) // another tab of the browser renames the view
	for _, tc := range []struct {
		action string
		form   url.Values
	}{{"rename", url.Values{"name": {"mine"}}}, {"update", url.Values{"verdict": {"good"}}}, {"delete", url.Values{}}} {
		tc.form.Set("version", first)
		res := post("/views/"+id+"/"+tc.action, tc.form)
		page := get(res.Header.Get("Location"))
		if res.StatusCode != http.StatusSeeOther {
			t.Errorf("%s from an older page: status = %d, want 303", tc.action, res.StatusCode)
		}
		if !strings.Contains(page, "Nothing was saved: the view was changed since the page was loaded: the name is worst, and the filters are verdict=poor") {
			t.Errorf(`%s from an older page = %q, want substring "Nothing was saved: the view was changed since the page was loaded: the name is worst, and the filters are verdict=poor"`, tc.action, page)
		}
		if tc.action == "update" && !strings.Contains(page, "Update worst") {
			t.Error("page after a refused update: got no button \"Update worst\", want one")
		}
	}
	if text := body(t, f.do(t, "GET", "/api/views", bearer(token))); !strings.Contains(text, `"name":"worst","query":"verdict=poor"`) {
		t.Errorf("views after the refused changes: got %s, want \"worst\" with verdict=poor", text)
	}
	post("/views/"+id+"/delete", url.Values{"version": {shownVersion()}})
	if text := body(t, f.do(t, "GET", "/api/views", bearer(token))); text != "{\"views\":[]}\n" {
		t.Errorf("views after a deletion with the current version: got %s, want none", text)
	}
}
