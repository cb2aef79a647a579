package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"precept/configs"
)

// pointing is how one agent's process is pointed at precept: its arguments and environment, and a
// folder for edited copies of its settings. Nothing of the user's own is changed.
type pointing struct {
	cfg     *configs.Config
	data    string // precept's data listener
	agent   string
	run     string // the run that all of the command's agents belong to; "" none
	session string // the one session that they all are; "" they are told apart
	args    []string
	env     map[string]string // as the agent will have it
	home    string
	work    string
	temp    string // made when it is needed; the caller removes it
	notes   io.Writer
}

// base is the address that says who speaks. An upstream is named where the routes would choose
// another one.
func (p *pointing) base(upstream string) string {
	escape := func(s string) string { return strings.NewReplacer(",", "%2C", "=", "%3D").Replace(url.PathEscape(s)) }
	said := "agent=" + escape(p.agent)
	if p.run != "" {
		said += ",run=" + escape(p.run)
	}
	if p.session != "" {
		said += ",session=" + escape(p.session)
	}
	if upstream != "" {
		said += ",upstream=" + escape(upstream)
	}
	return p.data + "/p/" + said
}

// point sets the variables that any program may read, and does what the agent wants besides.
func (p *pointing) point() error {
	base := p.base("")
	for _, name := range []string{"OPENAI_BASE_URL", "OPENAI_API_BASE", "COPILOT_PROVIDER_BASE_URL"} {
		p.env[name] = base + "/v1"
	}
	p.env["ANTHROPIC_BASE_URL"] = base
	if p.env["COPILOT_PROVIDER_TYPE"] == "anthropic" {
		p.env["COPILOT_PROVIDER_BASE_URL"] = base
	}
	for _, name := range []string{"NO_PROXY", "no_proxy"} { // a proxy of the environment does not reach this machine's loopback
		if at, err := url.Parse(p.data); err == nil && !strings.Contains(p.env[name], at.Hostname()) {
			p.env[name] = strings.TrimPrefix(p.env[name]+","+at.Hostname(), ",")
		}
	}
	p.env["PRECEPT_SESSION"], p.env["PRECEPT_URL"] = cmp.Or(p.session, p.run), p.data
	if p.run != "" {
		p.env["PRECEPT_RUN"] = p.run
	}
	switch programName(p.args) {
	case "codex":
		return p.codex()
	case "opencode":
		return p.opencode()
	case "pi":
		return p.pi()
	case "qwen":
		p.insert("--auth-type", "--auth-type", "openai")
		return nil
	case "cn":
		return p.continueCLI()
	case "cline":
		fmt.Fprintln(p.notes, "precept: cline takes its base URL from its own settings; say `cline auth openai -k KEY -m MODEL -b "+base+"/v1` first")
	}
	return nil
}

// insert puts arguments behind the program's name, unless the user gave that flag.
func (p *pointing) insert(flag string, more ...string) {
	for _, a := range p.args[1:] {
		if flag != "" && (a == flag || strings.HasPrefix(a, flag+"=")) {
			return
		}
	}
	p.args = append(append([]string{p.args[0]}, more...), p.args[1:]...)
}

// own says whether a base URL that a user configured is one that precept stands for: an upstream's,
// whose name it gives, or its own.
func (p *pointing) own(base string) (upstream string, ok bool) {
	same := func(a, b string) bool {
		trim := func(s string) string { return strings.TrimSuffix(strings.TrimRight(s, "/"), "/v1") }
		return trim(a) == trim(b)
	}
	if same(base, p.data) || strings.HasPrefix(base, p.data+"/") {
		return "", true
	}
	if p.cfg.Upstream != "" {
		return "", same(base, p.cfg.Upstream)
	}
	names := make([]string, 0, len(p.cfg.Upstreams))
	for name := range p.cfg.Upstreams {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if same(base, p.cfg.Upstreams[name].URL) {
			return name, true
		}
	}
	return "", false
}

// redirect gives the address that replaces a configured one, with /v1 where that one had it.
func (p *pointing) redirect(what, base string) (string, bool) {
	upstream, ok := p.own(base)
	if !ok {
		fmt.Fprintf(p.notes, "precept: %s talks to %s, which is no upstream of precept; it is left as it is\n", what, base)
		return "", false
	}
	if strings.HasSuffix(strings.TrimRight(base, "/"), "/v1") {
		return p.base(upstream) + "/v1", true
	}
	return p.base(upstream), true
}

// The lines of codex' config.toml that matter.
//
//nolint:gochecknoglobals // immutable
var (
	tomlProvider = regexp.MustCompile(`(?m)^\s*model_provider\s*=\s*["']([\w-]+)["']`)
	tomlSection  = regexp.MustCompile(`(?m)^\s*\[([^\]]+)\]\s*$`)
	tomlBaseURL  = regexp.MustCompile(`(?m)^\s*base_url\s*=\s*["']([^"']+)["']`)
)

// codex has a flag for any setting.
func (p *pointing) codex() error {
	home := p.env["CODEX_HOME"]
	if home == "" {
		home = filepath.Join(p.home, ".codex")
	}
	text, err := os.ReadFile(filepath.Join(home, "config.toml"))
	if err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("read codex' settings: %w", err)
	}
	top := string(text)
	if at := tomlSection.FindStringIndex(top); at != nil {
		top = top[:at[0]]
	}
	m := tomlProvider.FindStringSubmatch(top)
	if m == nil || m[1] == "openai" {
		p.insert("", "-c", fmt.Sprintf("openai_base_url=%q", p.base("")+"/v1"))
		return nil
	}
	_, section, _ := strings.Cut(string(text), "[model_providers."+m[1]+"]")
	if at := tomlSection.FindStringIndex(section); at != nil {
		section = section[:at[0]]
	}
	if u := tomlBaseURL.FindStringSubmatch(section); u != nil {
		if to, ok := p.redirect("codex' provider "+m[1], u[1]); ok {
			p.insert("", "-c", fmt.Sprintf("model_providers.%s.base_url=%q", m[1], to))
		}
	}
	return nil
}

// opencode merges what it finds in a variable over its files.
func (p *pointing) opencode() error {
	content := p.env["OPENCODE_CONFIG_CONTENT"]
	if content == "" {
		content = "{}"
	}
	over := map[string]string{"openai": p.base("") + "/v1", "anthropic": p.base("") + "/v1"}
	for _, file := range p.opencodeFiles() {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		plain := withoutComments(text)
		if !gjson.ValidBytes(plain) {
			fmt.Fprintf(p.notes, "precept: %s cannot be read as JSON; what it says of base URLs is left as it is\n", file)
			continue
		}
		p.redirectAll(over, "opencode's provider ", gjson.GetBytes(plain, "provider"), "options.baseURL")
	}
	var err error
	for name, to := range over {
		if content, err = sjson.Set(content, "provider."+escapePath(name)+".options.baseURL", to); err != nil {
			return fmt.Errorf("OPENCODE_CONFIG_CONTENT: %w", err)
		}
	}
	p.env["OPENCODE_CONFIG_CONTENT"] = content
	return nil
}

// opencodeFiles are the settings that opencode reads, the weakest first.
func (p *pointing) opencodeFiles() []string {
	config := p.env["XDG_CONFIG_HOME"]
	if config == "" {
		config = filepath.Join(p.home, ".config")
	}
	dirs := []string{filepath.Join(config, "opencode")}
	var above []string
	for dir := p.work; ; dir = filepath.Dir(dir) {
		above = append(above, dir)
		if dir == filepath.Dir(dir) {
			break
		}
	}
	slices.Reverse(above)
	var out []string
	for _, dir := range append(dirs, above...) {
		out = append(out, filepath.Join(dir, "opencode.json"), filepath.Join(dir, "opencode.jsonc"))
	}
	if file := p.env["OPENCODE_CONFIG"]; file != "" {
		out = append(out, file)
	}
	return out
}

// pi reads its settings in a folder that a variable names: a copy with one file edited, everything
// else a link to the user's own.
func (p *pointing) pi() error {
	from := p.env["PI_CODING_AGENT_DIR"]
	if from == "" {
		from = filepath.Join(p.home, ".pi", "agent")
	}
	if err := os.MkdirAll(from, 0o700); err != nil {
		return err
	}
	dir, err := p.copyOf(from, "models.json")
	if err != nil {
		return fmt.Errorf("copy pi's settings: %w", err)
	}
	text, err := os.ReadFile(filepath.Join(from, "models.json"))
	if os.IsNotExist(err) {
		text, err = []byte(`{"providers": {}}`), nil
	}
	if err != nil {
		return err
	}
	if text = withoutComments(text); !gjson.ValidBytes(text) {
		return fmt.Errorf("%s is not valid JSON; mend it", filepath.Join(from, "models.json"))
	}
	over := map[string]string{"openai": p.base("") + "/v1", "anthropic": p.base("")}
	p.redirectAll(over, "pi's provider ", gjson.GetBytes(text, "providers"), "baseUrl")
	for name, to := range over {
		if text, err = sjson.SetBytes(text, "providers."+escapePath(name)+".baseUrl", to); err != nil {
			return err
		}
	}
	p.env["PI_CODING_AGENT_DIR"] = dir
	return os.WriteFile(filepath.Join(dir, "models.json"), text, 0o600) //nolint:gosec // in a folder that we made
}

// redirectAll notes in over where each provider's base URL, if it has one, is to point.
func (p *pointing) redirectAll(over map[string]string, kind string, providers gjson.Result, path string) {
	providers.ForEach(func(name, provider gjson.Result) bool {
		if base := provider.Get(path).String(); base != "" {
			delete(over, name.String())
			if to, ok := p.redirect(kind+name.String(), base); ok {
				over[name.String()] = to
			}
		}
		return true
	})
}

var apiBase = regexp.MustCompile(`(?m)^(\s*(?:- )?apiBase:\s*)["']?(https?://[^\s"'#]+)["']?`) //nolint:gochecknoglobals // immutable

// continueCLI takes its settings from a file that a flag names: a copy with the addresses edited.
func (p *pointing) continueCLI() error {
	file := filepath.Join(p.home, ".continue", "config.yaml")
	at := slices.IndexFunc(p.args, func(a string) bool { return a == "--config" })
	if at > 0 && at+1 < len(p.args) {
		file = p.args[at+1]
	}
	text, err := os.ReadFile(file)
	if err != nil {
		fmt.Fprintf(p.notes, "precept: %s is not there; Continue is left as it is\n", file)
		return nil //nolint:nilerr // its assistant may come from elsewhere
	}
	edited := apiBase.ReplaceAllStringFunc(string(text), func(line string) string {
		m := apiBase.FindStringSubmatch(line)
		if to, ok := p.redirect("Continue", m[2]); ok {
			return m[1] + to
		}
		return line
	})
	dir, err := p.tempDir()
	if err != nil {
		return err
	}
	copied := filepath.Join(dir, "config.yaml")
	if at > 0 {
		p.args = slices.Clone(p.args)
		p.args[at+1] = copied
	} else {
		p.insert("--config", "--config", copied)
	}
	return os.WriteFile(copied, []byte(edited), 0o600) //nolint:gosec // in a folder that we made
}

func (p *pointing) tempDir() (string, error) {
	if p.temp != "" {
		return p.temp, nil
	}
	dir, err := os.MkdirTemp("", "precept-run-")
	p.temp = dir
	return dir, err
}

// copyOf makes a folder that looks like another one, but for a file that is left out.
func (p *pointing) copyOf(from, without string) (string, error) {
	dir, err := p.tempDir()
	if err != nil {
		return "", err
	}
	items, err := os.ReadDir(from)
	if err != nil {
		return "", err
	}
	if from, err = filepath.Abs(from); err != nil {
		return "", err
	}
	for _, item := range items {
		if item.Name() == without {
			continue
		}
		if err := os.Symlink(filepath.Join(from, item.Name()), filepath.Join(dir, item.Name())); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// escapePath quotes a key for sjson, whose paths have signs of their own.
func escapePath(key string) string {
	return regexp.MustCompile(`[^\w-]`).ReplaceAllString(key, `\$0`)
}

// withoutComments makes JSON out of JSON with comments and commas at ends, which these agents take.
func withoutComments(text []byte) []byte {
	if json.Valid(text) {
		return text
	}
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '"':
			end := i + 1
			for end < len(text) && text[end] != '"' {
				if text[end] == '\\' {
					end++
				}
				end++
			}
			out = append(out, text[i:min(end+1, len(text))]...)
			i = end
		case c == '/' && i+1 < len(text) && text[i+1] == '/':
			for i < len(text) && text[i] != '\n' {
				i++
			}
		case c == '/' && i+1 < len(text) && text[i+1] == '*':
			end := strings.Index(string(text[i+2:]), "*/")
			if end < 0 {
				return text
			}
			i += end + 3
		default:
			out = append(out, c)
		}
	}
	return regexp.MustCompile(`,(\s*[}\]])`).ReplaceAll(out, []byte("$1"))
}

// programName is the agent behind a command: of `python agent.py` and `npx codex` the second word.
func programName(args []string) string {
	name := func(s string) string {
		base := filepath.Base(s)
		return strings.TrimSuffix(base, filepath.Ext(base))
	}
	first := name(args[0])
	switch strings.TrimRight(first, "0123456789.") {
	case "python", "node", "npx", "bunx", "uvx", "uv", "sh", "bash", "deno", "bun", "go", "ruby", "pnpm", "npm", "env", "poetry":
		for _, a := range args[1:] {
			if a == "-c" || a == "-e" || a == "-m" {
				break
			}
			if !strings.HasPrefix(a, "-") && a != "run" && a != "exec" && a != "dlx" && !strings.Contains(a, "=") {
				if at := strings.LastIndex(a, "@"); at > 0 { // a version
					a = a[:at]
				}
				return name(a)
			}
		}
	}
	return first
}
