package main

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// The message for a viewer has the reason of the server: the token is a token of this server.
func TestRefusalOfAViewerHasTheReasonOfTheServer(t *testing.T) {
	t.Parallel()
	const why = "a viewer's token cannot change anything; use an operator's token"
	err := refusal("http://127.0.0.1:1", &http.Response{
		StatusCode: http.StatusForbidden, Status: "403 Forbidden", Body: io.NopCloser(strings.NewReader(`{"error":"` + why + `"}`)),
	})
	if !strings.Contains(err.Error(), why) || strings.Contains(err.Error(), "PRECEPT_ADMIN_TOKEN") {
		t.Errorf("got error %q, want reason %q without a hint at PRECEPT_ADMIN_TOKEN", err, why)
	}
}
