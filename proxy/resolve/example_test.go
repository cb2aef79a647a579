package resolve_test

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"precept/internal/session"
	"precept/internal/wire"
	"precept/proxy/resolve"
)

// The second request continues the session, because it contains the first reply. A request for a title has no session.
func Example() {
	now := func() time.Time { return time.Date(2026, 11, 26, 9, 0, 0, 0, time.UTC) }
	var sessions byte
	r := resolve.New(newFakeStore(), now, func() [16]byte { sessions++; return [16]byte{sessions} })
	for _, body := range []string{
		`{"messages":[{"role":"user","content":"Fix the build of the parser."}]}`,
		`{"messages":[{"role":"user","content":"Fix the build of the parser."},{"role":"assistant","content":"Fixed."},{"role":"user","content":"Test it."}]}`,
		`{"messages":[{"role":"user","content":"Create a short title for the conversation: Fix the build of the parser."}]}`,
	} {
		req, err := wire.Parse(wire.Chat, []byte(body))
		if err != nil {
			fmt.Println(err)
			return
		}
		q := &resolve.Query{
			Scope: session.Scope{Tenant: "default"}, Claim: session.Identify(http.Header{}, "/v1/chat/completions", req),
			Request: req, Learn: true,
		}
		res := r.Resolve(context.Background(), q)
		fmt.Printf("session %v, new %v, found by %s, side request %q\n", res.Session != nil, res.IsNew, res.Thread.Method, res.Side)
		r.RecordReply(q, &res, &wire.Reply{ID: "chatcmpl-1", Text: "Fixed.", Complete: true}, true)
		r.RecordEnd(&res, true)
	}
	// Output:
	// session true, new true, found by new, side request ""
	// session true, new false, found by echo, side request ""
	// session false, new false, found by new, side request "title"
}
