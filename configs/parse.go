package configs

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// Sources holds everything that a configuration is read from.
type Sources struct {
	FileName      string                            // name for File in faults; "" means precept.yaml
	File          []byte                            // nil: no file
	Env           func(name string) (string, bool)  // like os.LookupEnv; nil: no variables
	EnvNames      []string                          // all variables, searched for misspelt names
	ReadFile      func(name string) ([]byte, error) // reads the file named by a variable with the suffix _FILE; nil: no value
	Flags         map[string]string                 // by key, such as bandit.epsilon
	CheckRedisURL func(url string) error            // nil: accept every URL
	Offline       bool                              // ignore faults in keys that only a server needs
}

// Default returns the configuration in the embedded precept.yaml.
func Default() *Config {
	c, err := Parse(Sources{})
	if err != nil {
		panic("configs: the embedded precept.yaml: " + err.Error()) // unreachable: a test parses the embedded file
	}
	return c
}

// Parse reads the sources. The error has the type Faults.
func Parse(src Sources) (*Config, error) {
	if src.Env == nil {
		src.Env = func(string) (string, bool) { return "", false }
	}
	if src.FileName == "" {
		src.FileName = "precept.yaml"
	}
	c := &Config{}
	d := &decoder{env: func(string) (string, bool) { return "", false }, sources: map[string]string{}}
	d.readFile("default", reference, c)
	routes := c.Routes
	used := map[string]bool{} // variables looked up
	env := func(name string) (string, bool) {
		used[name] = true
		text, ok := src.Env(name)
		if file, named := src.Env(name + fileSuffix); named && file != "" && strings.HasPrefix(name, envPrefix) {
			used[name+fileSuffix] = true
			text, ok = d.readSecretFile(&src, name, text, file) // the key that uses the variable reports the fault
		}
		return strings.TrimRight(text, "\r\n"), ok // a mounted secret may end with a newline
	}
	d.env, d.sources, d.secretFaults = env, map[string]string{}, map[string]string{}
	d.inFile = true
	d.readFile(src.FileName, string(src.File), c)
	d.inFile = false
	d.checkRoutes(c, &routes)
	d.readVariables(c, env)
	d.readFlags(c, src.Flags)
	d.setDerivedKeys(c, env)
	d.reportMisspelt(src.EnvNames, env, used)
	v := &validator{config: c, sources: d.sources, decoderFaults: d.faults, checkRedisURL: src.CheckRedisURL}
	v.run()
	faults := append(d.faults, v.faults...)
	if src.Offline {
		faults = slices.DeleteFunc(faults, Fault.isServerOnly)
	}
	return c, faults.errOrNil()
}

const (
	envPrefix  = "PRECEPT_"
	fileSuffix = "_FILE" // a variable with this suffix names a file with the value
)

// readSecretFile returns a file's content as a variable's value. text, the variable's own value, must be empty.
func (d *decoder) readSecretFile(src *Sources, name, text, file string) (string, bool) {
	fault := func(problem string) {
		d.secretFaults[name] = "is set through " + name + fileSuffix + ", which " + problem
	}
	if text != "" {
		d.secretFaults[name] = "is set, and " + name + fileSuffix + " is set as well; set only one"
		return text, true
	}
	if src.ReadFile == nil {
		return "", false
	}
	b, err := src.ReadFile(file)
	if err != nil { // the fault omits the file name, which may be a secret by mistake
		cause := err
		if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
			cause = pathErr.Err
		}
		fault("names a file that cannot be read: " + cause.Error())
	} else if len(strings.TrimSpace(string(b))) == 0 {
		fault("names an empty file")
	}
	return string(b), err == nil
}

// isServerOnly reports whether the fault is in a key that only a server needs. Other commands ignore such faults,
// because an operator's shell often lacks the service's variables.
func (f Fault) isServerOnly() bool {
	section, _, _ := strings.Cut(f.Key, ".")
	section, _, _ = strings.Cut(section, "[")
	switch section {
	case "listen", "admin", "upstream", "upstreams", "routes", "tenancy", "keys", "hooks", "otel", "distill":
		return !f.unknown
	default:
		return false
	}
}

func (d *decoder) readFile(name, text string, c *Config) {
	d.source = name
	if n, ok := d.parse(text); ok {
		d.readSection("", reflect.ValueOf(c).Elem(), n)
	}
}

// HostKeys returns the keys in a file that name a host other than the default. expands reports whether the file refers
// to an environment variable.
func HostKeys(file []byte) (keys []string, expands bool) {
	c := &Config{}
	d := &decoder{sources: map[string]string{}, env: func(string) (string, bool) {
		expands = true
		return "", false
	}}
	d.readFile("default", reference, c)
	d.readFile("", string(file), c)
	for _, key := range ChangedKeys(c) {
		switch key {
		case "upstream", "upstreams", "distill.judge", "otel.endpoint":
			keys = append(keys, key)
		case "store.url":
			if strings.Contains(c.Store.URL.Reveal(), "://") {
				keys = append(keys, key)
			}
		case "lessons":
			if strings.Contains(c.Lessons, "://") {
				keys = append(keys, key)
			}
		}
	}
	return keys, expands
}

func (d *decoder) readVariables(c *Config, env func(string) (string, bool)) {
	for _, f := range leafFields() {
		text, ok := env(envName(f.path))
		d.source = envName(f.path)
		if problem := d.secretFaults[d.source]; problem != "" {
			d.addFault(f.path, nil, "", problem)
		} else if ok && text != "" {
			d.readFlagOrVariable(c, f, text)
		}
	}
}

func (d *decoder) readFlags(c *Config, given map[string]string) {
	rest := maps.Clone(given)
	for _, f := range leafFields() {
		if text, ok := rest[f.path]; ok {
			d.source = "--" + FlagName(f.path)
			d.readFlagOrVariable(c, f, text)
			delete(rest, f.path)
		}
	}
	for path := range rest {
		d.source = "flags"
		d.addFault(path, nil, "", "is not a key; `precept serve --help` lists the flags")
	}
}

// readFlagOrVariable sets one key from a flag or a variable. Scalars are used as written; scalar lists are
// comma-separated; maps and lists of mappings are in YAML flow style. A scalar in place of a list of mappings sets the
// field tagged "alone" in a single mapping.
func (d *decoder) readFlagOrVariable(c *Config, f field, text string) {
	v := reflect.ValueOf(c).Elem().FieldByIndex(f.index)
	d.sources[f.path] = d.source
	kind := v.Kind()
	if kind != reflect.Map && kind != reflect.Slice {
		d.setText(f.path, v, f.tag, nil, text)
		return
	}
	if kind == reflect.Slice && !isSection(f.typ.Elem()) &&
		!strings.HasPrefix(strings.TrimSpace(text), "[") {
		d.readCommaList(f.path, v, f.tag, nil, text)
		return
	}
	if i := scalarFieldIndex(f.typ.Elem()); kind == reflect.Slice && i >= 0 && strings.IndexAny(strings.TrimSpace(text), "[{") != 0 {
		elem := reflect.New(f.typ.Elem()).Elem()
		d.setText(f.path, elem.Field(i), f.tag, nil, text)
		v.Set(reflect.Append(reflect.MakeSlice(f.typ, 0, 1), elem))
		return
	}
	if n, ok := d.parse(text); ok {
		d.readValue(f.path, v, f.tag, n)
	}
}

// checkRoutes reports routes that are set next to the "upstream" key, because that upstream serves all requests.
// checkRoutes accepts default routes, because copies of precept.yaml contain them.
func (d *decoder) checkRoutes(c *Config, defaults *Routes) {
	usual := defaults.byKey()
	for path, name := range c.Routes.byKey() {
		if source, given := d.sources[path]; given && c.Upstream != "" && *name != *usual[path] {
			d.faults = append(d.faults, Fault{Key: path, Value: *name, Source: source, Problem: "has no effect, because the key upstream serves all requests; remove the route, or replace the key upstream with upstreams"})
		}
	}
}

// setDerivedKeys sets the keys that depend on other keys and variables, such as PRECEPT_ADMIN_TOKEN and
// OPENAI_BASE_URL. The upstream in the "upstream" key serves all routes. Without this key, a single entry in upstreams
// serves all routes that name none.
func (d *decoder) setDerivedKeys(c *Config, env func(string) (string, bool)) {
	token, ok := env("PRECEPT_ADMIN_TOKEN")
	if problem := d.secretFaults["PRECEPT_ADMIN_TOKEN"]; problem != "" {
		d.source = "PRECEPT_ADMIN_TOKEN"
		d.addFault("admin.tokens", nil, "", problem)
	} else if ok && token != "" {
		var first Secret
		d.source = "PRECEPT_ADMIN_TOKEN"
		d.setText("admin.tokens", reflect.ValueOf(&first).Elem(), "", nil, strings.ReplaceAll(token, "${", "$${"))
		c.Admin.Tokens = append([]Secret{first}, c.Admin.Tokens...) // first, because commands use the first token
	}
	for i := range c.Keys {
		c.Keys[i].KeySHA256 = strings.ToLower(c.Keys[i].KeySHA256)
	}
	_, named := d.sources["upstreams"]
	if base, ok := env("OPENAI_BASE_URL"); ok && base != "" && c.Upstream == "" && !named {
		c.Upstream = base
		d.sources["upstream"] = "OPENAI_BASE_URL"
	}
	if c.Upstream != "" {
		all := make(map[string]Upstream, len(c.Upstreams)+1)
		maps.Copy(all, c.Upstreams)
		all[defaultUpstream] = Upstream{URL: c.Upstream}
		c.Upstreams = all
		c.Routes = Routes{
			Chat: defaultUpstream, Responses: defaultUpstream, Messages: defaultUpstream,
			Other: defaultUpstream,
		}
		return
	}
	if named && len(c.Upstreams) == 1 {
		for name := range c.Upstreams {
			for path, route := range c.Routes.byKey() {
				if _, given := d.sources[path]; !given {
					*route = name
				}
			}
		}
	}
}

// defaultUpstream is the name of the upstream in the "upstream" key.
const defaultUpstream = "default"

// byKey returns pointers to the fields, by configuration key.
func (r *Routes) byKey() map[string]*string {
	return map[string]*string{
		"routes.chat": &r.Chat, "routes.responses": &r.Responses, "routes.messages": &r.Messages,
		"routes.other": &r.Other,
	}
}

// AllUpstreams returns each upstream's URL, by name.
func (c *Config) AllUpstreams() map[string]string {
	out := make(map[string]string, len(c.Upstreams))
	for name, u := range c.Upstreams {
		out[name] = u.URL
	}
	return out
}

// UpstreamByRoute returns the upstream names by route.
func (c *Config) UpstreamByRoute() map[string]string {
	return map[string]string{
		"chat": c.Routes.Chat, "responses": c.Routes.Responses, "messages": c.Routes.Messages,
		"other": c.Routes.Other,
	}
}

// UpstreamURLs returns the URLs that the routes use, sorted.
func (c *Config) UpstreamURLs() []string {
	if c.Upstream != "" {
		return []string{c.Upstream}
	}
	var urls []string
	for _, name := range c.UpstreamByRoute() {
		urls = append(urls, c.Upstreams[name].URL)
	}
	slices.Sort(urls)
	return slices.Compact(urls)
}

// StoreURL returns store.url, or the URL for the SQLite file in the data directory.
func (c *Config) StoreURL() string {
	if c.Store.URL != "" {
		return c.Store.URL.Reveal()
	}
	return c.DataDir + "/precept.db"
}

// Effective returns the effective configuration as YAML, without secrets.
func (c *Config) Effective() (string, error) {
	b, err := yaml.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("encode the effective configuration: %w", err)
	}
	return string(b), nil
}

// EffectiveTree returns Effective as nested maps.
func (c *Config) EffectiveTree() (tree map[string]any, err error) {
	text, err := c.Effective()
	if err != nil {
		return nil, err
	}
	if err := yaml.Unmarshal([]byte(text), &tree); err != nil {
		return nil, fmt.Errorf("parse the effective configuration: %w", err)
	}
	return tree, nil
}

// Hash returns the first 12 hex digits of the SHA-256 over the effective configuration without secrets. Samples and
// reports contain the hash.
func (c *Config) Hash() string {
	text, err := c.Effective()
	if err != nil {
		text = "unreadable"
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:6])
}
