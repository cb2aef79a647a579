package main

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// An error about a viewer's token must not mention PRECEPT_ADMIN_TOKEN, because the token is valid.
func TestResponseErrorShowsServersReason(t *testing.T) {
	t.Parallel()
	const why = "a viewer's token cannot change anything; use an operator's token"
	err := responseError("http://127.0.0.1:1", &http.Response{
		StatusCode: http.StatusForbidden, Status: "403 Forbidden", Body: io.NopCloser(strings.NewReader(`{"error":"` + why + `"}`)),
	})
	if !strings.Contains(err.Error(), why) || strings.Contains(err.Error(), "PRECEPT_ADMIN_TOKEN") {
		t.Errorf("err = %q, want %q without PRECEPT_ADMIN_TOKEN", err, why)
	}
}
