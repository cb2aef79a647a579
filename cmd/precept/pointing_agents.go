package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

// Lines of codex' config.toml with a base URL or a provider.
//
//nolint:gochecknoglobals // immutable
var (
	tomlProvider = regexp.MustCompile(`(?m)^\s*model_provider\s*=\s*["']([\w-]+)["']`)
	tomlSection  = regexp.MustCompile(`(?m)^\s*\[([^\]]+)\]\s*$`)
	tomlBaseURL  = regexp.MustCompile(`(?m)^\s*base_url\s*=\s*["']([^"']+)["']`)
)

// codex points Codex at precept by its -c flag, which overrides any setting of its config.toml.
func (p *pointing) codex() error {
	home := cmp.Or(p.env["CODEX_HOME"], filepath.Join(p.home, ".codex"))
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
		p.insertArguments("", "-c", fmt.Sprintf("openai_base_url=%q", p.base("")+"/v1"))
		return nil
	}
	_, section, _ := strings.Cut(string(text), "[model_providers."+m[1]+"]")
	if at := tomlSection.FindStringIndex(section); at != nil {
		section = section[:at[0]]
	}
	if u := tomlBaseURL.FindStringSubmatch(section); u != nil {
		if to, ok := p.redirect("codex' provider "+m[1], u[1]); ok {
			p.insertArguments("", "-c", fmt.Sprintf("model_providers.%s.base_url=%q", m[1], to))
		}
	}
	return nil
}

// opencode points opencode at precept by OPENCODE_CONFIG_CONTENT, whose settings override the settings of files.
func (p *pointing) opencode() error {
	content := cmp.Or(p.env["OPENCODE_CONFIG_CONTENT"], "{}")
	baseURLs := map[string]string{"openai": p.base("") + "/v1", "anthropic": p.base("") + "/v1"}
	for _, file := range p.opencodeFiles() {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		plain := withoutComments(text)
		if !gjson.ValidBytes(plain) {
			fmt.Fprintf(
				p.notes,
				"precept: %s is not valid JSON; the base URLs in the file are unchanged\n",
				file,
			)
			continue
		}
		p.redirectAll(
			baseURLs, "opencode's provider ", gjson.GetBytes(plain, "provider"), "options.baseURL",
		)
	}
	var err error
	for name, to := range baseURLs {
		if content, err = sjson.Set(content, "provider."+escapePath(name)+".options.baseURL", to); err != nil {
			return fmt.Errorf("OPENCODE_CONFIG_CONTENT: %w", err)
		}
	}
	p.env["OPENCODE_CONFIG_CONTENT"] = content
	return nil
}

// opencodeFiles returns the settings files that opencode reads, in the order of rising priority.
func (p *pointing) opencodeFiles() []string {
	config := cmp.Or(p.env["XDG_CONFIG_HOME"], filepath.Join(p.home, ".config"))
	var above []string
	for dir := p.work; ; dir = filepath.Dir(dir) {
		above = append(above, dir)
		if dir == filepath.Dir(dir) {
			break
		}
	}
	slices.Reverse(above)
	var out []string
	for _, dir := range append([]string{filepath.Join(config, "opencode")}, above...) {
		out = append(out, filepath.Join(dir, "opencode.json"), filepath.Join(dir, "opencode.jsonc"))
	}
	if file := p.env["OPENCODE_CONFIG"]; file != "" {
		out = append(out, file)
	}
	return out
}

// pi points pi at precept by the variable of its settings folder. The folder has an edited models.json, and
// links to all other files of the user's folder.
func (p *pointing) pi() error {
	source := cmp.Or(p.env["PI_CODING_AGENT_DIR"], filepath.Join(p.home, ".pi", "agent"))
	if err := os.MkdirAll(source, 0o700); err != nil {
		return err
	}
	dir, err := p.linkFolder(source, "models.json")
	if err != nil {
		return fmt.Errorf("copy pi's settings: %w", err)
	}
	text, err := os.ReadFile(filepath.Join(source, "models.json"))
	if os.IsNotExist(err) {
		text, err = []byte(`{"providers": {}}`), nil
	}
	if err != nil {
		return err
	}
	if text = withoutComments(text); !gjson.ValidBytes(text) {
		return fmt.Errorf("%s is not valid JSON; correct the file", filepath.Join(source, "models.json"))
	}
	baseURLs := map[string]string{"openai": p.base("") + "/v1", "anthropic": p.base("")}
	p.redirectAll(baseURLs, "pi's provider ", gjson.GetBytes(text, "providers"), "baseUrl")
	for name, to := range baseURLs {
		if text, err = sjson.SetBytes(text, "providers."+escapePath(name)+".baseUrl", to); err != nil {
			return err
		}
	}
	p.env["PI_CODING_AGENT_DIR"] = dir
	return os.WriteFile(filepath.Join(dir, "models.json"), text, 0o600) //nolint:gosec // in a folder that we made
}

// redirectAll sets the new base URL of each provider in baseURLs. A provider whose base URL is not an
// upstream of precept is removed from baseURLs.
func (p *pointing) redirectAll(
	baseURLs map[string]string, kind string, providers gjson.Result, path string,
) {
	providers.ForEach(func(name, provider gjson.Result) bool {
		if base := provider.Get(path).String(); base != "" {
			delete(baseURLs, name.String())
			if to, ok := p.redirect(kind+name.String(), base); ok {
				baseURLs[name.String()] = to
			}
		}
		return true
	})
}

var apiBase = regexp.MustCompile(`(?m)^(\s*(?:- )?apiBase:\s*)["']?(https?://[^\s"'#]+)["']?`) //nolint:gochecknoglobals // immutable

// continueCLI points Continue at precept by the flag --config, with an edited copy of its settings file.
func (p *pointing) continueCLI() error {
	file := filepath.Join(p.home, ".continue", "config.yaml")
	at := slices.IndexFunc(p.args, func(a string) bool { return a == "--config" })
	if at > 0 && at+1 < len(p.args) {
		file = p.args[at+1]
	}
	text, err := os.ReadFile(file)
	if err != nil {
		fmt.Fprintf(p.notes, "precept: %s does not exist; the settings of Continue are unchanged\n", file)
		return nil //nolint:nilerr // Continue may get its settings from another place
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
		p.insertArguments("--config", "--config", copied)
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

// linkFolder makes a folder with links to all files of another folder except one.
func (p *pointing) linkFolder(source, except string) (string, error) {
	dir, err := p.tempDir()
	if err != nil {
		return "", err
	}
	items, err := os.ReadDir(source)
	if err != nil {
		return "", err
	}
	if source, err = filepath.Abs(source); err != nil {
		return "", err
	}
	for _, item := range items {
		if item.Name() == except {
			continue
		}
		if err := os.Symlink(filepath.Join(source, item.Name()), filepath.Join(dir, item.Name())); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// escapePath quotes a key for sjson, whose paths have special characters.
func escapePath(key string) string {
	return regexp.MustCompile(`[^\w-]`).ReplaceAllString(key, `\$0`)
}

// withoutComments removes comments and trailing commas, which these agents accept, from JSON.
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
