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

	"precept/internal/price"
)

// validator checks decoded values.
type validator struct {
	config        *Config
	sources       map[string]string // source of each key's value; defaults have no entry
	decoderFaults Faults
	faults        Faults                 // the validator's faults only
	checkRedisURL func(url string) error // nil skips the check
}

func (v *validator) run() {
	c := v.config
	v.checkAddresses()
	v.checkUpstreams()
	v.checkKeys()
	v.checkPrices()
	v.checkHooks("hooks.github", c.Hooks.GitHub)
	v.checkHooks("hooks.gitlab", c.Hooks.GitLab)
	v.checkPatterns()
	v.checkTags()
	v.checkTokens("admin.tokens", c.Admin.Tokens)
	v.checkTokens("admin.viewer_tokens", c.Admin.ViewerTokens)
	for i, t := range c.Admin.ViewerTokens {
		v.require(!slices.Contains(c.Admin.Tokens, t), indexedKey("admin.viewer_tokens", i), "",
			"is also in admin.tokens, which permit every action; choose another token for viewers")
	}
	v.require(c.Admin.BasePath == "" || isPlainPath(c.Admin.BasePath), "admin.base_path", c.Admin.BasePath,
		"is not a plain path; write one such as /precept, with letters, digits, dots, - and _ after each /, and no / at the end")
	v.require(c.DataDir != "", "data_dir", "", "is empty; name a directory")
	v.require(c.Lessons != "", "lessons", "", "is empty; name the directory with the lesson files")
	v.checkStoreAddress("lessons", c.Lessons)
	v.checkStoreAddress("store.url", c.Store.URL.Reveal())
	v.require(len(c.Reward.Tiers) > 0, "reward.tiers", "",
		"is empty, so no session would ever get a reward; write [user, verifier, implicit]")
	v.require(c.Ledger.Trust != "own" || c.Ledger.Agent != "", "ledger.agent", "",
		"is empty, but ledger.trust is own; set ledger.agent to an agent's name, or ledger.trust to quarantined")
	v.require(c.Distill.Judge == "rules" || isHTTP(c.Distill.Judge), "distill.judge", "", "is neither rules nor a valid URL; write rules, or a base URL such as https://api.openai.com/v1")
	v.require(c.Distill.Judge == "rules" || c.Distill.Model != "", "distill.model", "",
		"is missing, but distill.judge is a URL; name the judge's model")
	v.require(c.Otel.Endpoint == "" || isHTTP(c.Otel.Endpoint), "otel.endpoint", "", notHTTPProblem)
	if _, err := c.Otel.Header(); err != nil {
		v.addFault("otel.headers", "", err.Error())
	}
}

// require adds a fault, unless ok is true.
func (v *validator) require(ok bool, path, value, problem string) {
	if !ok {
		v.addFault(path, value, problem)
	}
}

// addFault adds a fault, unless the decoder reported a fault in the key or in its list. The index [0] is ignored,
// because the decoder omits it for a single entry written without a list.
func (v *validator) addFault(path, value, problem string) {
	unindexed := strings.Replace(path, "[0]", "", 1)
	reported := func(f Fault) bool { return f.Key == path || f.Key == unindexed || strings.HasPrefix(f.Key, path+"[") }
	if !slices.ContainsFunc(v.decoderFaults, reported) {
		v.faults = append(v.faults, Fault{Key: path, Value: value, Source: v.keySource(path), Problem: problem})
	}
}

// keySource returns the source for a key or for the nearest section around it.
func (v *validator) keySource(path string) string {
	for p := path; p != ""; p = p[:max(0, strings.LastIndexAny(p, ".["))] {
		if s, ok := v.sources[p]; ok {
			return s
		}
	}
	return "default"
}

func indexedKey(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }

func (v *validator) checkKeys() {
	c := v.config
	if c.Tenancy == "keys" {
		v.require(len(c.Keys) > 0, "keys", "", "is empty, so with `tenancy: keys` every client would be refused; list at least one key")
	} else {
		v.require(len(c.Keys) == 0, "keys", "", "has no effect while tenancy is "+c.Tenancy+"; set tenancy to keys, or remove the list")
	}
	names, hashes := map[string]bool{}, map[string]bool{}
	for i, k := range c.Keys {
		path := indexedKey("keys", i)
		v.require(k.Name != "", path+".name", "", "is missing; give the key a name")
		v.require(k.Name == "" || !names[k.Name], path+".name", k.Name, "is also another key's name; choose another name")
		v.require(isSHA256(k.KeySHA256), path+".key_sha256", "", "is not a SHA-256 hash in hex digits; printf %s \"$KEY\" | sha256sum prints the hash")
		v.require(!isSHA256(k.KeySHA256) || !hashes[k.KeySHA256], path+".key_sha256", "", "is also another key's hash; remove one entry")
		v.require(k.Tenant != "", path+".tenant", "", "is missing; name the key's tenant")
		names[k.Name], hashes[k.KeySHA256] = true, true
	}
}

// checkPrices checks the prices. The second of two equal patterns is a fault, because it has no effect.
func (v *validator) checkPrices() {
	seen := map[string]bool{}
	for i, p := range v.config.Prices {
		path := indexedKey("prices", i)
		v.require(price.IsPattern(p.Model), path+".model", p.Model, "is not a model name pattern; write one such as gpt-5*")
		v.require(!seen[p.Model] || p.Model == "", path+".model", p.Model, "is listed twice; keep one")
		v.require(p.Cached <= p.Input || p.Input < 0, path+".cached", strconv.FormatFloat(p.Cached, 'g', -1, 64), "is higher than the input price; write the same price or a lower one")
		seen[p.Model] = true
	}
}

// checkHooks checks webhooks. Equal secrets are a fault, because the secret selects the tenant.
func (v *validator) checkHooks(key string, hooks []Hook) {
	c, secrets := v.config, map[Secret]bool{}
	for i, h := range hooks {
		path := indexedKey(key, i)
		v.require(h.Secret != "", path+".secret", "", "is empty; create a secret with openssl rand -hex 32, and write it here and into the webhook's settings")
		v.require(h.Secret == "" || !secrets[h.Secret], path+".secret", "", "is also another webhook's secret; use a different secret for each webhook")
		secrets[h.Secret] = true
		switch c.Tenancy {
		case "single":
			v.require(h.Tenant == "" || h.Tenant == "default", path+".tenant", h.Tenant, "has no sessions, because tenancy is single; remove the tenant")
		case "keys":
			listed := slices.ContainsFunc(c.Keys, func(k Key) bool { return k.Tenant == h.Tenant })
			v.require(listed, path+".tenant", h.Tenant, "is not a tenant in keys; use a tenant from that list")
		default:
			v.require(h.Tenant != "", path+".tenant", "", "is missing; name the tenant whose sessions the webhook rates")
		}
	}
}

func isSHA256(text string) bool {
	raw, err := hex.DecodeString(text)
	return err == nil && len(raw) == 32
}

// checkStoreAddress checks a path or a Redis address. The store's own parser checks the address.
func (v *validator) checkStoreAddress(path, value string) {
	const problem = "is not an address that precept supports; write a path, or redis://host:6379/0"
	isLessons := path == "lessons"
	kind, rest, ok := strings.Cut(value, "://")
	switch {
	case !ok:
		v.require(value == "" || isPath(value), path, "", problem)
	case kind == "sqlite" || kind == "sqlite3" || kind == "file":
		v.addFault(path, kind+"://", "is not an address that precept supports; write the path alone, such as "+examplePath(rest))
	case !slices.Contains([]string{"redis", "rediss", "redis-sentinel"}, kind):
		v.addFault(path, kind+"://", problem)
	case isLessons && strings.Contains(rest, "@"):
		v.addFault(path, kind+"://",
			"contains a password, which the dashboard would show; write redis:// alone to use the Redis in store.url")
	case isLessons && rest == "" && kind == "redis":
		v.require(strings.HasPrefix(v.config.Store.URL.Reveal(), "redis"), path, value,
			"means the Redis in store.url, but store.url is not a Redis address; write redis://host:6379/0")
	case v.checkRedisURL != nil:
		if err := v.checkRedisURL(value); err != nil {
			v.addFault(path, kind+"://", err.Error())
		}
	}
}

// isPath reports whether a text without :// is a path. Texts such as host:6379, file:x.db and :memory: are addresses
// with a missing or incomplete scheme.
func isPath(text string) bool {
	before, after, ok := strings.Cut(text, ":")
	switch {
	case !ok || strings.ContainsAny(before, `/\`):
		return true
	case len(before) == 1 && !isDigits(after): // a Windows drive
		return true
	case slices.Contains([]string{"", "redis", "rediss", "redis-sentinel", "sqlite", "sqlite3", "file"}, strings.ToLower(before)):
		return false
	}
	port, _, _ := strings.Cut(after, "/")
	return !isDigits(port)
}

func isDigits(text string) bool { return text != "" && strings.Trim(text, "0123456789") == "" }

// examplePath returns a URL's path as an example for an error message. If the path is empty, or contains an @ and so
// perhaps a password, examplePath returns a default path.
func examplePath(rest string) string {
	rest, _, _ = strings.Cut(rest, "?")
	if strings.Contains(rest, "@") || strings.Trim(rest, "/") == "" {
		return "./data/precept.db"
	}
	return rest
}

const notHTTPProblem = "is not an http or https URL; write one such as http://127.0.0.1:4318"

func isHTTP(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Hostname() != "" && hasValidPort(u) && (u.Scheme == "http" || u.Scheme == "https")
}

func (v *validator) checkPatterns() {
	l := v.config.Learning
	for path, list := range map[string][]string{
		"learning.opt_out_patterns": l.OptOutPatterns,
		"learning.opt_out_agents":   l.OptOutAgents,
		"learning.opt_out_tenants":  l.OptOutTenants,
	} {
		for i, p := range list {
			v.require(p != "" && doublestar.ValidatePattern(p), indexedKey(path, i), p,
				"is not a pattern; write one such as *.env or secrets/**")
		}
	}
	for i, p := range v.config.Match.System {
		_, err := pathpkg.Match(p, "")
		v.require(p != "" && err == nil, indexedKey("match.system", i), p,
			"is not a pattern; write true, or an agent's name such as crew-*")
	}
}

// checkTags checks the tags and their phrases. An invalid tag would have no effect, because no lesson could name it.
func (v *validator) checkTags() {
	for tag, words := range v.config.Tags {
		v.require(isTag(tag), "tags."+tag, tag,
			"is not a tag; write lower-case letters, digits and dashes, starting with a letter")
		blank := func(w string) bool { return strings.TrimSpace(w) == "" }
		v.require(len(words) > 0 && !slices.ContainsFunc(words, blank), "tags."+tag, "", "has no phrase, or an empty one; list the phrases that set the tag")
	}
}

// isTag reports whether s is a tag in AIP-11, the lesson file format: ^[a-z][a-z0-9-]*$.
func isTag(s string) bool {
	rest := strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-")
	return s != "" && rest == "" && s[0] >= 'a' && s[0] <= 'z'
}

// isPlainPath reports whether a path starts with a slash and has no empty segment, no segment made of dots, and no
// character that proxies and routers encode differently.
func isPlainPath(path string) bool {
	segments := strings.Split(path, "/")
	return segments[0] == "" && !slices.ContainsFunc(segments[1:], func(s string) bool {
		return strings.Trim(s, ".") == "" ||
			strings.Trim(strings.ToLower(s), "abcdefghijklmnopqrstuvwxyz0123456789-_.") != ""
	})
}

// minTokenBytes is the minimum length for a plain-text token if other machines can reach the admin listener. The
// listener accepts a correct token even after many wrong tokens, so only the length prevents guessing.
const minTokenBytes = 16

// checkTokens checks admin tokens.
func (v *validator) checkTokens(key string, tokens []Secret) {
	exposed := !isLoopback(v.config.Admin.Listen)
	for i, t := range tokens {
		path, text := indexedKey(key, i), strings.TrimSpace(t.Reveal())
		hash, hashed := strings.CutPrefix(t.Reveal(), "sha256:")
		switch {
		case text == "":
			v.addFault(path, "", "is empty, and an empty token would admit every client; remove the entry, or write a token")
		case hashed:
			v.require(isSHA256(hash), path, "", "does not consist of the prefix sha256: and a SHA-256 hash in hex digits; printf %s \"$TOKEN\" | sha256sum prints the hex digits")
		case strings.Contains(strings.ToLower(text), "sha256"):
			v.addFault(path, "", "looks like a hash, but would be used as a plain-text token; write sha256:<hex>, and list viewers' tokens in admin.viewer_tokens")
		default:
			v.require(len(t) >= minTokenBytes || !exposed, path, "",
				"is too short, because other machines can reach the admin listener; write at least "+strconv.Itoa(minTokenBytes)+" characters, for example from openssl rand -hex 32")
		}
	}
}
