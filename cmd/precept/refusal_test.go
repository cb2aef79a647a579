package main

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// If a viewer token is refused, the error must not mention PRECEPT_ADMIN_TOKEN. The viewer token is valid, but it does
// not permit the request.
func TestResponseErrorShowsServersReason(t *testing.T) {
	t.Parallel()
	const why = "a viewer's token cannot change anything; use an operator's token"
	err := responseError("http://127.0.0.1:1", &http.Response{
		StatusCode: http.StatusForbidden, Status: "403 Forbidden", Body: io.NopCloser(strings.NewReader(`{"error":"` + why + `"}`)),
	})
	if !strings.Contains(err.Error(), why) || strings.Contains(err.Error(), "PRECEPT_ADMIN_TOKEN") {
		t.Errorf("error for a viewer token: got %q, want it to contain %q but not PRECEPT_ADMIN_TOKEN", err, why)
	}
}
