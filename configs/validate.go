package configs

import (
	"encoding/hex"
	"fmt"
	"net/url"
	pathpkg "path"
	"slices"
	"strconv"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// validator holds a configuration against what it means, one rule a method; decoding has already
// told values of a wrong form.
type validator struct {
	config  *Config
	given   map[string]string
	decoded Faults
	faults  Faults
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
	v.ledger()
}

// ledger refuses a trust that would reach beyond the agent that has it.
func (v *validator) ledger() {
	l := &v.config.Ledger
	if l.Trust == "own" && l.Agent == "" {
		v.fault(
			"ledger.agent", "",
			"is empty, and ledger.trust: own is for one agent; name it, or set ledger.trust to quarantined",
		)
	}
}

// fault notes a fault, unless decoding has reported one of that key: one mistake gives one line.
func (v *validator) fault(path, value, problem string) {
	for _, f := range v.decoded {
		if f.Key == path {
			return
		}
	}
	v.faults = append(v.faults, Fault{
		Key: path, Value: value, Source: v.source(path), Problem: problem,
	})
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

func (v *validator) tenancy() {
	c := v.config
	if c.Tenancy == "keys" && len(c.Keys) == 0 {
		v.fault(
			"keys", "",
			"is empty, and tenancy is keys: every client would be refused; list at least one",
		)
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
		v.fault(
			path+".key_sha256", "", "is no SHA-256 in hex; printf %s \"$KEY\" | sha256sum gives it",
		)
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
	v.otel()
	if c.Distill.Judge != "rules" {
		v.httpURL("distill.judge", c.Distill.Judge)
		if c.Distill.Model == "" {
			v.fault(
				"distill.model", "",
				"is missing, and distill.judge is an API: name the model that judges",
			)
		}
	}
}

// otel checks where traces go.
func (v *validator) otel() {
	o := v.config.Otel
	if o.Endpoint != "" {
		v.httpURL("otel.endpoint", o.Endpoint)
	}
	if _, err := o.Header(); err != nil {
		v.fault("otel.headers", "", err.Error())
	}
}

// place accepts a path, or a URL that one of the stores knows.
func (v *validator) place(path, value string, sqlite bool) {
	scheme, rest, ok := strings.Cut(value, "://")
	if !ok {
		return
	}
	known := []string{"redis", "rediss", "redis-sentinel"}
	if sqlite {
		known = append(known, "sqlite", "file")
	}
	if !slices.Contains(known, scheme) {
		v.fault(
			path, scheme+"://",
			"is of no kind that precept keeps things in; write a path or redis://host:6379/0",
		)
		return
	}
	if strings.HasPrefix(scheme, "redis") {
		v.redis(path, scheme, rest)
		return
	}
	if _, err := url.Parse(value); err != nil {
		v.fault(path, scheme+"://", "is no URL; write redis://host:6379/0")
	}
}

// redis looks for a host; several of them, with commas, are a Cluster or a Sentinel group. The
// store itself reads the rest.
func (v *validator) redis(path, scheme, rest string) {
	rest, _, _ = strings.Cut(rest, "?")
	login := strings.LastIndexByte(rest, '@')
	hosts := rest[login+1:]
	if path == "lessons" {
		if login >= 0 {
			v.fault(
				path, scheme+"://",
				"holds a password, which would be shown; write redis:// alone, which is the Redis of store.url",
			)
			return
		}
		if rest == "" && scheme == "redis" {
			return
		}
	}
	if hosts, _, _ = strings.Cut(hosts, "/"); strings.Trim(hosts, ",:") == "" || strings.HasPrefix(hosts, ":") {
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
				v.fault(
					fmt.Sprintf("%s[%d]", path, i), p,
					"is no pattern; write one such as *.env or secrets/**",
				)
			}
		}
	}
	for i, p := range v.config.Match.System {
		if _, err := pathpkg.Match(p, ""); p == "" || err != nil {
			v.fault(
				fmt.Sprintf("match.system[%d]", i), p,
				"is no pattern; write true, or an agent's name such as crew-*",
			)
		}
	}
	v.tags()
}

// tags checks the rules by which turns get tags. A tag that no lesson can name would do nothing.
func (v *validator) tags() {
	for tag, words := range v.config.Tags {
		if !isTag(tag) {
			v.fault(
				"tags."+tag, tag,
				"is no tag; write lower-case letters, digits and dashes, starting with a letter",
			)
		}
		if len(words) == 0 || slices.ContainsFunc(words, func(w string) bool { return strings.TrimSpace(w) == "" }) {
			v.fault("tags."+tag, "", "has no words, or an empty one")
		}
	}
}

// isTag is AIP-11's pattern of a tag, ^[a-z][a-z0-9-]*$.
func isTag(s string) bool {
	rest := strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-")
	return s != "" && rest == "" && s[0] >= 'a' && s[0] <= 'z'
}

// plainPath says that a path is words behind slashes, which mean the same wherever they are
// written.
func plainPath(path string) bool {
	words := strings.Split(path, "/")
	return words[0] == "" && !slices.ContainsFunc(words[1:], func(w string) bool {
		return strings.Trim(w, ".") == "" ||
			strings.Trim(strings.ToLower(w), "abcdefghijklmnopqrstuvwxyz0123456789-_.") != ""
	})
}

// minToken is the least length of a token in clear where others than this machine can try: wrong
// tokens are counted but a right one always works, so that only its length keeps it from being
// guessed.
const minToken = 16

// tokens checks the form of hashed admin tokens; their text is never shown.
func (v *validator) tokens() {
	v.tokensOf("admin.tokens", v.config.Admin.Tokens)
	v.tokensOf("admin.viewer_tokens", v.config.Admin.ViewerTokens)
	if base := v.config.Admin.BasePath; base != "" && !plainPath(base) {
		v.fault("admin.base_path", base, "is no path of plain words; write it like /precept")
	}
	for i, t := range v.config.Admin.ViewerTokens {
		if slices.Contains(v.config.Admin.Tokens, t) {
			v.fault(
				fmt.Sprintf("admin.viewer_tokens[%d]", i), "",
				"is one of admin.tokens too, which may do everything; give viewers a token of their own",
			)
		}
	}
}

func (v *validator) tokensOf(key string, tokens []Secret) {
	for i, t := range tokens {
		path := fmt.Sprintf("%s[%d]", key, i)
		hash, hashed := strings.CutPrefix(t.Reveal(), "sha256:")
		if raw, err := hex.DecodeString(hash); hashed && (err != nil || len(raw) != 32) {
			v.fault(path, "", "is no SHA-256 in hex behind sha256:")
		}
		switch {
		case strings.TrimSpace(t.Reveal()) == "":
			v.fault(path, "", "is empty; an empty token would open the door to everyone")
		case !hashed && strings.Contains(strings.ToLower(t.Reveal()), "sha256"):
			v.fault(
				path, "",
				"would be a token in clear; write sha256:<hex>, viewers' under admin.viewer_tokens",
			)
		case !hashed && len(t) < minToken && !loopback(v.config.Admin.Listen):
			v.fault(
				path, "",
				"is short for a listener that can be reached from outside; take at least "+strconv.Itoa(minToken)+" characters: openssl rand -hex 32",
			)
		}
	}
}

// experiment checks what single bounds cannot.
func (v *validator) experiment() {
	c := v.config
	if len(c.Reward.Tiers) == 0 {
		v.fault(
			"reward.tiers", "",
			"is empty: no session would ever have a reward; write [user, verifier, implicit]",
		)
	}
}
