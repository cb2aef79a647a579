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

// Patterns for lines in Codex' config.toml.
//
//nolint:gochecknoglobals // immutable
var (
	tomlProvider = regexp.MustCompile(`(?m)^\s*model_provider\s*=\s*["']([\w-]+)["']`)
	tomlSection  = regexp.MustCompile(`(?m)^\s*\[([^\]]+)\]\s*$`)
	tomlBaseURL  = regexp.MustCompile(`(?m)^\s*base_url\s*=\s*["']([^"']+)["']`)
)

// configureCodex uses the -c flag to override a setting in config.toml.
func (l *launch) configureCodex() error {
	home := cmp.Or(l.env["CODEX_HOME"], filepath.Join(l.home, ".codex"))
	text, err := os.ReadFile(filepath.Join(home, "config.toml"))
	if err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("read codex's settings: %w", err)
	}
	topLevel := string(text)
	if at := tomlSection.FindStringIndex(topLevel); at != nil {
		topLevel = topLevel[:at[0]]
	}
	m := tomlProvider.FindStringSubmatch(topLevel)
	if m == nil || m[1] == "openai" {
		l.insertArguments("", "-c", fmt.Sprintf("openai_base_url=%q", l.baseURL("")+"/v1"))
		return nil
	}
	_, section, _ := strings.Cut(string(text), "[model_providers."+m[1]+"]")
	if at := tomlSection.FindStringIndex(section); at != nil {
		section = section[:at[0]]
	}
	if u := tomlBaseURL.FindStringSubmatch(section); u != nil {
		if to, ok := l.redirect("codex's provider "+m[1], u[1]); ok {
			l.insertArguments("", "-c", fmt.Sprintf("model_providers.%s.base_url=%q", m[1], to))
		}
	}
	return nil
}

// configureOpencode uses the OPENCODE_CONFIG_CONTENT variable to override the settings in files.
func (l *launch) configureOpencode() error {
	content := cmp.Or(l.env["OPENCODE_CONFIG_CONTENT"], "{}")
	baseURLs := map[string]string{"openai": l.baseURL("") + "/v1", "anthropic": l.baseURL("") + "/v1"}
	for _, file := range l.opencodeFiles() {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		plain := withoutComments(text)
		if !gjson.ValidBytes(plain) {
			fmt.Fprintf(
				l.stderr,
				"precept: %s is not valid JSON, so precept does not change the base URLs in the file; correct the file\n",
				file,
			)
			continue
		}
		l.redirectAll(
			baseURLs, "opencode's provider ", gjson.GetBytes(plain, "provider"), "options.baseURL",
		)
	}
	var err error
	for name, to := range baseURLs {
		if content, err = sjson.Set(content, "provider."+escapePath(name)+".options.baseURL", to); err != nil {
			return fmt.Errorf("OPENCODE_CONFIG_CONTENT: %w", err)
		}
	}
	l.env["OPENCODE_CONFIG_CONTENT"] = content
	return nil
}

// opencodeFiles returns the settings files that opencode reads, lowest priority first.
func (l *launch) opencodeFiles() []string {
	config := cmp.Or(l.env["XDG_CONFIG_HOME"], filepath.Join(l.home, ".config"))
	var above []string
	for dir := l.workDir; ; dir = filepath.Dir(dir) {
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
	if file := l.env["OPENCODE_CONFIG"]; file != "" {
		out = append(out, file)
	}
	return out
}

// configurePi points PI_CODING_AGENT_DIR to a folder that contains an edited copy of models.json, and links to all
// other files in the user's folder.
func (l *launch) configurePi() error {
	source := cmp.Or(l.env["PI_CODING_AGENT_DIR"], filepath.Join(l.home, ".pi", "agent"))
	if err := os.MkdirAll(source, 0o700); err != nil {
		return err
	}
	dir, err := l.linkFolder(source, "models.json")
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
	baseURLs := map[string]string{"openai": l.baseURL("") + "/v1", "anthropic": l.baseURL("")}
	l.redirectAll(baseURLs, "pi's provider ", gjson.GetBytes(text, "providers"), "baseUrl")
	for name, to := range baseURLs {
		if text, err = sjson.SetBytes(text, "providers."+escapePath(name)+".baseUrl", to); err != nil {
			return err
		}
	}
	l.env["PI_CODING_AGENT_DIR"] = dir
	return os.WriteFile(filepath.Join(dir, "models.json"), text, 0o600) //nolint:gosec // the folder was created by tempDir
}

// redirectAll sets the new base URL for each provider in baseURLs, and removes a provider if its base URL belongs to
// none of precept's upstreams. path locates the base URL in a provider's settings.
func (l *launch) redirectAll(
	baseURLs map[string]string, kind string, providers gjson.Result, path string,
) {
	providers.ForEach(func(name, provider gjson.Result) bool {
		if base := provider.Get(path).String(); base != "" {
			delete(baseURLs, name.String())
			if to, ok := l.redirect(kind+name.String(), base); ok {
				baseURLs[name.String()] = to
			}
		}
		return true
	})
}

var apiBase = regexp.MustCompile(`(?m)^(\s*(?:- )?apiBase:\s*)["']?(https?://[^\s"'#]+)["']?`) //nolint:gochecknoglobals // immutable

// configureContinue passes an edited copy of the settings file with --config.
func (l *launch) configureContinue() error {
	file := filepath.Join(l.home, ".continue", "config.yaml")
	at := slices.IndexFunc(l.args, func(a string) bool { return a == "--config" })
	if at > 0 && at+1 < len(l.args) {
		file = l.args[at+1]
	}
	text, err := os.ReadFile(file)
	if err != nil {
		fmt.Fprintf(l.stderr, "precept: Continue's settings cannot be read, so its requests may bypass precept: %v\n", err)
		return nil //nolint:nilerr // Continue may get its settings from elsewhere
	}
	edited := apiBase.ReplaceAllStringFunc(string(text), func(line string) string {
		m := apiBase.FindStringSubmatch(line)
		if to, ok := l.redirect("Continue", m[2]); ok {
			return m[1] + to
		}
		return line
	})
	dir, err := l.tempDir()
	if err != nil {
		return err
	}
	copied := filepath.Join(dir, "config.yaml")
	if at > 0 {
		l.args = slices.Clone(l.args)
		l.args[at+1] = copied
	} else {
		l.insertArguments("--config", "--config", copied)
	}
	return os.WriteFile(copied, []byte(edited), 0o600) //nolint:gosec // the folder was created by tempDir
}

func (l *launch) tempDir() (string, error) {
	if l.tempPath != "" {
		return l.tempPath, nil
	}
	dir, err := os.MkdirTemp("", "precept-run-")
	l.tempPath = dir
	return dir, err
}

// linkFolder links all files in the folder source, except one, into the temporary folder.
func (l *launch) linkFolder(source, except string) (string, error) {
	dir, err := l.tempDir()
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

// escapePath escapes special characters for an sjson path.
func escapePath(key string) string {
	return regexp.MustCompile(`[^\w-]`).ReplaceAllString(key, `\$0`)
}

// withoutComments removes comments and trailing commas from JSON. The agents accept both in settings.
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
