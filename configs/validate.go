package configs

import (
	"encoding/hex"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// validator holds a configuration against what it means, one rule a method; decoding has already told values of a wrong form.
type validator struct {
	config          *Config
	given, defaults map[string]string
	decoded         Faults
	faults          Faults
}

func (v *validator) run() {
	v.addresses()
	v.upstreams()
	v.routes()
	v.tenancy()
	v.places()
	v.patterns()
	v.tokens()
	v.experiment()
}

// fault notes one, unless decoding already told of that key: one mistake, one line.
func (v *validator) fault(path, value, problem string) {
	for _, f := range v.decoded {
		if f.Key == path {
			return
		}
	}
	v.faults = append(v.faults, Fault{Key: path, Value: value, Source: v.source(path), Problem: problem})
}

// source is where the key, or the nearest key above it, was set.
func (v *validator) source(path string) string {
	for p := path; p != ""; {
		if s, ok := v.given[p]; ok {
			return s
		}
		cut := strings.LastIndexAny(p, ".[")
		if cut < 0 {
			break
		}
		p = p[:cut]
	}
	return "default"
}

func (v *validator) addresses() {
	dataOK := v.address("listen", v.config.Listen)
	adminOK := v.address("admin.listen", v.config.Admin.Listen)
	if !dataOK || !adminOK {
		return
	}
	if v.config.Listen == v.config.Admin.Listen && !strings.HasSuffix(v.config.Listen, ":0") {
		v.fault("admin.listen", v.config.Admin.Listen, "is the data listener's address too; give it a port of its own")
	}
	if !loopback(v.config.Admin.Listen) && len(v.config.Admin.Tokens) == 0 {
		v.fault("admin.listen", v.config.Admin.Listen, "can be reached from outside and there is no admin token; set PRECEPT_ADMIN_TOKEN (or admin.tokens), or listen on 127.0.0.1")
	}
}

func (v *validator) address(path, value string) bool {
	_, port, err := net.SplitHostPort(value)
	if err != nil {
		v.fault(path, value, "is no address; write host:port, such as 127.0.0.1:8080")
		return false
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || (n == 0 && port != "0") {
		v.fault(path, value, "has no port from 0 to 65535")
		return false
	}
	return true
}

// loopback says that an address can be reached from this machine only.
func loopback(address string) bool {
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

func (v *validator) upstreams() {
	if len(v.config.Upstreams) == 0 {
		v.fault("upstreams", "", "names none; write a name with its url, or set --upstream")
	}
	for name, u := range v.config.Upstreams {
		path := "upstreams." + name + ".url"
		if name == DefaultUpstream && v.config.Upstream != "" {
			path = "upstream"
		}
		if name == "" || strings.ContainsAny(name, "/,= ") {
			v.fault("upstreams."+name, name, "is no name; use letters, digits, - and _")
		}
		if problem := v.upstreamProblem(u.URL); problem != "" {
			v.fault(path, showURL(u.URL), problem)
		}
	}
}

// showURL is a URL without what may be secret in it: user, password, query.
func showURL(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.User != nil && u.Host == "" {
		return ""
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}

// upstreamProblem says what is wrong with an upstream's URL, "" for nothing. An upstream that is precept itself is the likeliest
// mistake of all: the variable that is to point agents here is also the one that names our upstream.
func (v *validator) upstreamProblem(text string) string {
	u, err := url.Parse(text)
	switch {
	case text == "" || err != nil:
		return "is no URL; write one such as https://api.openai.com/v1"
	case u.Scheme != "http" && u.Scheme != "https":
		return "must begin with http:// or https://"
	case u.Hostname() == "":
		return "has no host"
	case u.User != nil:
		return "holds a user or a password; clients send their own credential, or use keys with upstream_key"
	case u.RawQuery != "" || u.Fragment != "":
		return "has a query or a fragment; give the base URL alone"
	case v.isSelf(u):
		return "is precept's own address: requests would go round for ever; name the real API"
	default:
		return ""
	}
}

func (v *validator) isSelf(u *url.URL) bool {
	for _, address := range []string{v.config.Listen, v.config.Admin.Listen} {
		host, port, err := net.SplitHostPort(address)
		if err != nil || port == "0" || port != portOf(u) {
			continue
		}
		ip := net.ParseIP(host)
		open := host == "" || (ip != nil && ip.IsUnspecified())
		if strings.EqualFold(host, u.Hostname()) || ((open || loopback(address)) && loopback(net.JoinHostPort(u.Hostname(), port))) {
			return true
		}
	}
	return false
}

func portOf(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	default:
		return "80"
	}
}

func (v *validator) routes() {
	for path, name := range v.config.Routes.byPath() {
		if _, ok := v.config.Upstreams[*name]; !ok && len(v.config.Upstreams) > 0 {
			v.fault(path, *name, "names no upstream; there are "+sortedNames(v.config.Upstreams))
		}
	}
}

func (v *validator) tenancy() {
	c := v.config
	if c.Tenancy == "keys" && len(c.Keys) == 0 {
		v.fault("keys", "", "is empty, and tenancy is keys: every client would be refused; list at least one")
	}
	if c.Tenancy != "keys" && len(c.Keys) > 0 {
		v.fault("keys", "", "is not read while tenancy is "+c.Tenancy+"; set tenancy: keys")
	}
	names, hashes := map[string]bool{}, map[string]bool{}
	for i := range c.Keys {
		v.key(fmt.Sprintf("keys[%d]", i), &c.Keys[i], names, hashes)
	}
}

func (v *validator) key(path string, k *Key, names, hashes map[string]bool) {
	switch {
	case k.Name == "":
		v.fault(path+".name", "", "is missing; every key has a name")
	case names[k.Name]:
		v.fault(path+".name", k.Name, "is used by another key")
	}
	hash := k.KeySHA256
	switch raw, err := hex.DecodeString(hash); {
	case err != nil || len(raw) != 32:
		v.fault(path+".key_sha256", "", "is no SHA-256 in hex; printf %s \"$KEY\" | sha256sum gives it")
	case hashes[hash]:
		v.fault(path+".key_sha256", "", "is the same as another key's")
	}
	if k.Tenant == "" {
		v.fault(path+".tenant", "", "is missing; say whose key it is")
	}
	names[k.Name], hashes[hash] = true, true
}

// places checks where things are kept.
func (v *validator) places() {
	c := v.config
	if c.DataDir == "" {
		v.fault("data_dir", "", "is empty; name a directory")
	}
	v.place("lessons", c.Lessons, false)
	if c.Lessons == "" {
		v.fault("lessons", "", "is empty; name a directory of LESSON.md files")
	}
	v.place("store.url", c.Store.URL.Reveal(), true)
	if c.Otel.Endpoint != "" {
		v.httpURL("otel.endpoint", c.Otel.Endpoint)
	}
	if c.Distill.Judge != "rules" {
		v.httpURL("distill.judge", c.Distill.Judge)
	}
}

// place accepts a path, or a URL that one of the stores knows.
func (v *validator) place(path, value string, sqlite bool) {
	scheme, _, ok := strings.Cut(value, "://")
	if !ok {
		return
	}
	known := []string{"redis", "rediss"}
	if sqlite {
		known = append(known, "sqlite", "file")
	}
	if !slices.Contains(known, scheme) {
		v.fault(path, scheme+"://", "is of no kind that precept keeps things in; write a path or redis://host:6379/0")
		return
	}
	if u, err := url.Parse(value); err != nil || (strings.HasPrefix(scheme, "redis") && u.Hostname() == "") {
		v.fault(path, scheme+"://", "is no URL; write redis://host:6379/0")
	}
}

func (v *validator) httpURL(path, value string) {
	u, err := url.Parse(value)
	if err != nil || u.Hostname() == "" || (u.Scheme != "http" && u.Scheme != "https") {
		v.fault(path, "", "is no URL; it must begin with http:// or https://")
	}
}

func (v *validator) patterns() {
	l := v.config.Learning
	for path, list := range map[string][]string{
		"learning.opt_out_patterns": l.OptOutPatterns,
		"learning.opt_out_agents":   l.OptOutAgents,
		"learning.opt_out_tenants":  l.OptOutTenants,
	} {
		for i, p := range list {
			if p == "" || !doublestar.ValidatePattern(p) {
				v.fault(fmt.Sprintf("%s[%d]", path, i), p, "is no pattern; write one such as *.env or secrets/**")
			}
		}
	}
	for tag, words := range v.config.Tags {
		if slices.Contains(words, "") || len(words) == 0 {
			v.fault("tags."+tag, "", "has no words, or an empty one")
		}
	}
}

// minToken is the least length of a token in clear where others than this machine can try: wrong tokens are counted but a right
// one always works, so that only its length keeps it from being guessed.
const minToken = 16

// tokens checks the form of hashed admin tokens; their text is never shown.
func (v *validator) tokens() {
	for i, t := range v.config.Admin.Tokens {
		path := fmt.Sprintf("admin.tokens[%d]", i)
		hash, hashed := strings.CutPrefix(t.Reveal(), "sha256:")
		if raw, err := hex.DecodeString(hash); hashed && (err != nil || len(raw) != 32) {
			v.fault(path, "", "is no SHA-256 in hex behind sha256:")
		}
		switch {
		case strings.TrimSpace(t.Reveal()) == "":
			v.fault(path, "", "is empty; an empty token would open the door to everyone")
		case !hashed && len(t) < minToken && !loopback(v.config.Admin.Listen):
			v.fault(path, "", "is short for a listener that can be reached from outside; take at least "+strconv.Itoa(minToken)+" characters: openssl rand -hex 32")
		}
	}
}

// experiment checks what single bounds cannot.
func (v *validator) experiment() {
	c := v.config
	if len(c.Reward.Tiers) == 0 {
		v.fault("reward.tiers", "", "is empty: no session would ever have a reward; write [user, verifier, implicit]")
	}
}
