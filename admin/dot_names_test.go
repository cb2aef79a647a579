package admin

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"precept/store"
)

// dotNames is an archive with a run and a session named "..". It records the names that are requested from it.
type dotNames struct {
	emptyArchive

	requested *[]string
}

func (dotNames) Browse(context.Context, store.SessionQuery) (store.SessionList, error) {
	return store.SessionList{Sessions: []store.SessionItem{{ID: "..", Run: ".."}}, RowsRead: 1}, nil
}

func (d dotNames) Run(_ context.Context, _, name string) (store.RunSessions, error) {
	*d.requested = append(*d.requested, "run "+name)
	return store.RunSessions{Name: name, Sessions: []store.SessionItem{{ID: "."}}}, nil
}

func (d dotNames) Transcript(_ context.Context, _, name string, _ int) (store.Transcript, error) {
	*d.requested = append(*d.requested, "session "+name)
	return store.Transcript{SessionItem: store.SessionItem{ID: name}}, nil
}

// A browser resolves . and .. in the path of a link, even if they are escaped. The dashboard therefore puts these names
// into the query of its links.
func TestRunsAndSessionsNamedDotsAreReachable(t *testing.T) {
	var requested []string
	forgetter := &fakeForgetter{}
	f := newFixture(t, func(o *Options) { o.Read.Archive, o.Write.Forget = dotNames{requested: &requested}, forgetter })
	cookie, csrf := f.logIn(t)
	for _, tc := range []struct{ page, link, want string }{
		{"/sessions?tenant=acme", "..", "/sessions/-?name=..&tenant=acme"},
		{"/runs/-?name=..&tenant=acme", ".", "/sessions/-?name=.&tenant=acme"},
		{"/sessions/-?name=.&tenant=acme", "post /sessions/-/rate?name=.&tenant=acme", "/sessions/-/rate?name=.&tenant=acme"},
	} {
		page := body(t, f.do(t, "GET", tc.page, func(r *http.Request) { r.AddCookie(cookie) }))
		links := linkAddresses(t, page)
		if got := links[tc.link]; got == nil {
			t.Errorf("%s, link or form %q = nil", tc.page, tc.link)
		} else if got.String() != tc.want {
			t.Errorf("%s, link or form %q = %q, want %q", tc.page, tc.link, got.String(), tc.want)
		}
	}
	if page := get(t, f, "/sessions", http.StatusOK); !strings.Contains(page, `href="/runs/-?name=.."`) {
		t.Errorf("sessions page: got %s, want a link to /runs/-?name=..", page)
	}
	for _, path := range []string{"/api/runs/-?name=..", "/api/sessions/-?name=..", "/api/sessions/-", "/api/sessions/s-1?name=x"} {
		get(t, f, path, http.StatusOK)
	}
	if got, want := strings.Join(requested, ", "), "run .., session ., run .., session .., session -, session s-1"; got != want {
		t.Errorf("names requested from the archive: got %s, want %s", got, want)
	}
	f.do(t, "POST", "/sessions/-/forget?name=..&tenant=acme", func(r *http.Request) {
		r.AddCookie(cookie)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Body = io.NopCloser(strings.NewReader(url.Values{csrfField: {csrf}, "sure": {"yes"}}.Encode()))
	})
	if forgetter.lastCall != "acme|.." {
		t.Errorf("tenant and session that Forget receives from the deletion form: got %q, want \"acme|..\"", forgetter.lastCall)
	}
}
