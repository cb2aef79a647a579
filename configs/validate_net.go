package configs

import (
	"net"
	"net/url"
	"strconv"
	"strings"
)

func (v *validator) checkAddresses() {
	c := v.config
	dataOK, adminOK := v.checkAddress("listen", c.Listen), v.checkAddress("admin.listen", c.Admin.Listen)
	if !dataOK || !adminOK {
		return
	}
	v.require(c.Listen != c.Admin.Listen || strings.HasSuffix(c.Listen, ":0"), "admin.listen", c.Admin.Listen,
		"is also the data listener's address; use another port")
	v.require(isLoopback(c.Admin.Listen) || len(c.Admin.Tokens) > 0, "admin.listen", c.Admin.Listen,
		"can be reached from other machines, and there is no admin token; set PRECEPT_ADMIN_TOKEN (or admin.tokens), or listen on 127.0.0.1")
}

func (v *validator) checkAddress(path, value string) (ok bool) {
	host, port, err := net.SplitHostPort(value)
	n, portErr := strconv.ParseUint(port, 10, 16)
	problem := ""
	switch {
	case err != nil:
		problem = "is not an address; write host:port, such as 127.0.0.1:8080"
	case portErr != nil || n == 0 && port != "0":
		problem = "has no port from 0 to 65535; write host:port, such as 127.0.0.1:8080"
	case strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || strings.ContainsRune("/@?#,;\"'<>", r) }):
		problem = "has an invalid host before the port; write host:port, such as 127.0.0.1:8080"
	case host != "" && strings.Trim(host, "0123456789.") == "" && net.ParseIP(host) == nil:
		problem = "has an invalid IP address before the port; write one such as 127.0.0.1:8080"
	}
	v.require(problem == "", path, value, problem)
	return problem == ""
}

// hasValidPort reports whether a URL has no port, or a port from 1 to 65535.
func hasValidPort(u *url.URL) bool {
	n, err := strconv.ParseUint(u.Port(), 10, 16)
	return u.Port() == "" || err == nil && n > 0
}

// isLoopback reports whether only this machine can reach an address.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

func (v *validator) checkUpstreams() {
	c := v.config
	v.require(len(c.Upstreams) > 0, "upstreams", "", "is empty; list an upstream with a name and a url, or set --upstream")
	for name, u := range c.Upstreams {
		path := "upstreams." + name + ".url"
		if name == defaultUpstream && c.Upstream != "" {
			path = "upstream"
		}
		v.require(name != "" && !strings.ContainsAny(name, "/,= "), "upstreams."+name, name,
			"is not a valid name; use letters, digits, - and _")
		if problem := v.upstreamProblem(u.URL); problem != "" {
			v.addFault(path, redactURL(u.URL), problem)
		}
	}
	for path, name := range c.Routes.byKey() {
		_, known := c.Upstreams[*name]
		v.require(known || len(c.Upstreams) == 0, path, *name, "is not a configured upstream; "+alternatives("upstream", c.Upstreams))
	}
	if e := c.Match.Embeddings; e.Upstream != "" {
		_, known := c.Upstreams[e.Upstream]
		v.require(known || len(c.Upstreams) == 0, "match.embeddings.upstream", e.Upstream, "is not a configured upstream; "+alternatives("upstream", c.Upstreams))
		v.require(e.Model != "", "match.embeddings.model", "", "is missing, but match.embeddings.upstream is set; name the embedding model")
	}
}

// redactURL removes user, password and query, which may be secret.
func redactURL(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.User != nil && u.Host == "" {
		return ""
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}

// upstreamProblem returns the fault in an upstream's URL, or "". A common mistake is precept's own address, because
// OPENAI_BASE_URL both points agents to precept and names the upstream.
func (v *validator) upstreamProblem(text string) string {
	u, err := url.Parse(text)
	switch {
	case text == "" || err != nil:
		return "is not a URL; write one such as https://api.openai.com/v1"
	case u.Scheme != "http" && u.Scheme != "https":
		return "must begin with http:// or https://; write one such as https://api.openai.com/v1"
	case u.Hostname() == "":
		return "has no host; write one such as https://api.openai.com/v1"
	case !hasValidPort(u):
		return "has no port from 1 to 65535; write one such as http://127.0.0.1:8000/v1"
	case u.User != nil:
		return "contains a user or a password; remove them, because clients send their own keys, or set upstream_key in keys"
	case u.RawQuery != "" || u.Fragment != "":
		return "contains a query or a fragment; write the base URL alone"
	case v.isOwnAddress(u):
		return "is precept's own address, so precept would send each request to itself; write the LLM API's address"
	default:
		return ""
	}
}

// isOwnAddress reports whether a URL leads to one of precept's own listeners.
func (v *validator) isOwnAddress(u *url.URL) bool {
	for _, address := range []string{v.config.Listen, v.config.Admin.Listen} {
		host, port, err := net.SplitHostPort(address)
		if err != nil || port == "0" || port != urlPort(u) {
			continue
		}
		ip := net.ParseIP(host)
		everyAddress := host == "" || (ip != nil && ip.IsUnspecified())
		if strings.EqualFold(host, u.Hostname()) ||
			((everyAddress || isLoopback(address)) && isLoopback(net.JoinHostPort(u.Hostname(), port))) {
			return true
		}
	}
	return false
}

func urlPort(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	default:
		return "80"
	}
}
