package server

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// welcome answers a browser that requests / on the data listener. The response has the dashboard's address and the
// agents' base URLs. A request with a foreign Host header gets no address, because another site could point a host name
// at this listener (DNS rebinding).
func welcome(dataURL, dashboardURL string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.Path != "/" || !strings.Contains(r.Header.Get("Accept"), "text/html") {
			next.ServeHTTP(w, r)
			return
		}
		base, place := "this page's address, with /v1 at the end for OpenAI APIs", "`precept dashboard` opens the dashboard."
		if isLoopback(r.Host) {
			base = fmt.Sprintf("OPENAI_BASE_URL=%s/v1 or ANTHROPIC_BASE_URL=%s", dataURL, dataURL)
			place = fmt.Sprintf("The dashboard is at %s; `precept dashboard` prints the login link.", dashboardURL)
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		_, _ = fmt.Fprintf(w, "This is precept's data listener, for agents, not for browsers.\n%s\nAgent base URL: %s\n", place, base)
	})
}

func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && ip.IsLoopback() || strings.EqualFold(host, "localhost")
}
