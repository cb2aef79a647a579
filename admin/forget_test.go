package admin

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

type fakeForgetter struct {
	lastCall string // TENANT|SESSION in the latest call
	err      error
}

func (f *fakeForgetter) Forget(_ context.Context, tenant, session string) (int, error) {
	f.lastCall = tenant + "|" + session
	return 3, f.err
}

func TestForgetRequestMustNameOneSessionOrTenant(t *testing.T) {
	for _, tc := range []struct {
		name, body string
		call       string // expected lastCall
		status     int
		err        error
	}{
		{"a session", `{"tenant":"acme","session":"ci-42"}`, "acme|ci-42", 200, nil},
		{"a session without a tenant", `{"session":"ci-42"}`, "default|ci-42", 200, nil},
		{"a tenant", `{"tenant":"acme","all":true}`, "acme|", 200, nil},
		{"neither tenant nor session", `{}`, "", 400, nil},
		{"a tenant without all", `{"tenant":"acme"}`, "", 400, nil},
		{"all without a tenant", `{"all":true}`, "", 400, nil},
		{"a session and all", `{"tenant":"acme","session":"x","all":true}`, "", 400, nil},
		{"a misspelt key", `{"tenant":"acme","all":true,"sesion":"x"}`, "", 400, nil},
		{"a body that is not JSON", `tenant=acme`, "", 400, nil},
		{"a failing store", `{"session":"x"}`, "default|x", 503, errors.New("the disk is full")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			forgetter := &fakeForgetter{err: tc.err}
			f := newFixture(t, func(o *Options) { o.Write.Forget = forgetter })
			res := f.do(t, "POST", "/api/forget", func(r *http.Request) {
				bearer(token)(r)
				r.Body = io.NopCloser(strings.NewReader(tc.body))
			})
			text := body(t, res)
			if res.StatusCode != tc.status {
				t.Errorf("status = %d, want %d, body %s", res.StatusCode, tc.status, text)
			}
			if forgetter.lastCall != tc.call {
				t.Errorf("lastCall = %q, want %q", forgetter.lastCall, tc.call)
			}
			if tc.status == 200 && strings.TrimSpace(text) != `{"forgotten":3}` {
				t.Errorf("body of the response: got %s, want {\"forgotten\":3}", text)
			}
		})
	}
}

func TestForgetRequiresTokenAndCSRF(t *testing.T) {
	forgetter := &fakeForgetter{}
	f := newFixture(t, func(o *Options) { o.Write.Forget = forgetter })
	const request = `{"tenant":"acme","all":true}`
	withBody := func(change func(*http.Request)) func(*http.Request) {
		return func(r *http.Request) {
			r.Body = io.NopCloser(strings.NewReader(request))
			change(r)
		}
	}
	if res := f.do(t, "POST", "/api/forget", withBody(func(*http.Request) {})); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a token: got status %d, want 401", res.StatusCode)
	}
	cookie, _ := f.logIn(t)
	if res := f.do(t, "POST", "/api/forget", withBody(func(r *http.Request) { r.AddCookie(cookie) })); res.StatusCode != http.StatusForbidden {
		t.Errorf("without a CSRF token: got status %d, want 403", res.StatusCode)
	}
	if res := f.do(t, "GET", "/api/forget", bearer(token)); res.StatusCode == http.StatusOK {
		t.Error("GET /api/forget: got status 200, want an error status")
	}
	if forgetter.lastCall != "" {
		t.Errorf("after the refused requests: got call %q of Forget, want no call", forgetter.lastCall)
	}
}

// The audit log must not contain the names of deleted sessions, because session names are personal data.
func TestDeletionAuditEntryNamesTenantAndNumber(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Write.Forget = &fakeForgetter{} })
	f.do(t, "POST", "/api/forget", func(r *http.Request) {
		bearer(token)(r)
		r.Body = io.NopCloser(strings.NewReader(`{"tenant":"acme","session":"ci-42"}`))
	})
	const want = "session (by name) in the tenant acme: 3 deleted"
	if got := f.audit.latest(); len(got) != 1 {
		t.Errorf("audit log = %+v, want 1 item", got)
	} else if got[0].Detail != want {
		t.Errorf("audit log: Detail = %q, want %q", got[0].Detail, want)
	}
}
