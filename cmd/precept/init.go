package main

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"precept/configs"
	"precept/internal/shell"
)

type initFlags struct {
	dir       string
	upstreams []string
	agents    []string
	starter   bool
	full      bool
	asJSON    bool
}

type initResult struct {
	Config  string            `json:"config"`  // path of the written configuration
	Lessons string            `json:"lessons"` // lessons directory
	Written []string          `json:"written"` // paths of all written files
	URL     string            `json:"url"`     // data listener's URL
	Agents  map[string]string `json:"agents"`  // setting that points each --agent to precept
}

func (inv *invocation) initCommand() *cobra.Command {
	var f initFlags
	c := &cobra.Command{
		Use:   "init",
		Short: "Write a commented configuration, and print your agents' settings",
		Long: "Init writes precept.yaml and a lessons directory for the given upstreams and agents. " +
			"Init never overwrites a file.\n\n    precept init --upstream https://api.openai.com/v1 " +
			"--agent codex",
		Args: argsValidator(cobra.NoArgs),
	}
	c.Flags().StringVar(&f.dir, "dir", ".", "directory for the files")
	c.Flags().StringArrayVar(
		&f.upstreams, "upstream", nil,
		"base URL of an upstream, such as https://api.openai.com/v1; repeatable (default: OpenAI and Anthropic)",
	)
	c.Flags().StringSliceVar(
		&f.agents, "agent", nil,
		"print the setting for this agent: "+strings.Join(knownAgents(), ", ")+"; repeatable, or separated by commas",
	)
	c.Flags().BoolVar(
		&f.starter, "starter", false, "also write precept's starter lessons; existing files are kept",
	)
	c.Flags().BoolVar(
		&f.full, "full", false, "write every key with a comment, not only the usual keys",
	)
	addJSONFlag(c, &f.asJSON)
	c.RunE = func(*cobra.Command, []string) error { return inv.writeFiles(&f) }
	return c
}

func (inv *invocation) writeFiles(f *initFlags) error {
	for _, a := range f.agents {
		if _, ok := agentSettings()[a]; !ok {
			return misuse(fmt.Errorf(
				"--agent %s is unknown; use one of %s; for another agent, omit --agent and see README.md", a,
				strings.Join(knownAgents(), ", "),
			))
		}
	}
	mayKeep := f.starter && !f.full && len(f.upstreams) == 0 // no flag asks for different contents of precept.yaml
	if len(f.upstreams) == 0 {
		f.upstreams = []string{"https://api.openai.com/v1", "https://api.anthropic.com"}
	}
	text, err := f.config()
	if err != nil {
		return misuse(err)
	}
	if _, err := configs.Parse(configs.Sources{File: []byte(text), FileName: "precept.yaml", Env: func(string) (string, bool) { return "", false }}); err != nil {
		return misuse(err)
	}
	file := filepath.Join(f.dir, "precept.yaml")
	lessons := filepath.Join(f.dir, "lessons")
	if err := os.MkdirAll(f.dir, 0o755); err != nil { //nolint:gosec // a directory of the user's project
		return addDirectoryRemedy(err)
	}
	var files []string
	action := "wrote"
	switch err := createFile(file, text); {
	case err == nil:
		files = []string{file}
		inv.acceptFile([]byte(text))
	case errors.Is(err, fs.ErrExist) && mayKeep:
		action = "kept"
	case errors.Is(err, fs.ErrExist):
		return fmt.Errorf("%s already exists and was not changed; move the file, or name another directory with --dir", file)
	default:
		return addDirectoryRemedy(err)
	}
	written, err := f.writeLessons(lessons)
	if err != nil {
		return addDirectoryRemedy(err)
	}
	if f.asJSON {
		agents := map[string]string{}
		for _, a := range f.agents {
			agents[a] = agentSetting(a)
		}
		return writeJSON(inv.stdout, initResult{file, lessons, append(files, written...), dataAddress, agents})
	}
	fmt.Fprintln(inv.stdout, action, file)
	switch {
	case f.starter:
		fmt.Fprintf(inv.stdout, "wrote %d starter lessons to %s\n", len(written), lessons)
	case len(written) > 0:
		fmt.Fprintln(inv.stdout, "wrote", written[0], "(an example; no agent gets it, because its state is quarantined)")
	}
	start := "precept serve --config precept.yaml"
	if dir := filepath.Clean(f.dir); dir != "." { // the configuration names ./lessons and ./data
		start = fmt.Sprintf("cd %s && %s", shell.Quote(dir), start)
	}
	fmt.Fprintf(inv.stdout, "\nStart precept:\n    %s\n", start)
	if len(f.agents) == 0 {
		fmt.Fprintf(
			inv.stdout,
			"\nSet your agent's base URL; most agents read OPENAI_BASE_URL=%s/v1 or ANTHROPIC_BASE_URL=%s.\n",
			dataAddress, dataAddress,
		)
		return nil
	}
	fmt.Fprintln(inv.stdout, "\nSet your agents' base URL; the agents keep their API keys:")
	for _, a := range f.agents {
		fmt.Fprintf(inv.stdout, "    %-12s %s\n", a, agentSetting(a))
	}
	return nil
}

const dataAddress = "http://127.0.0.1:8080"

func (f *initFlags) config() (string, error) {
	usedNames := map[string]bool{}
	var lines, firstName, anthropicName string
	for _, raw := range f.upstreams {
		u, err := url.Parse(raw)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return "", fmt.Errorf(
				"--upstream %q is not an http or https URL; write a URL such as https://api.openai.com/v1",
				raw,
			)
		}
		name := upstreamName(u.Hostname(), usedNames)
		usedNames[name], firstName = true, cmp.Or(firstName, name)
		lines += fmt.Sprintf("  %s: {url: %q}\n", name, raw)
		if strings.Contains(name, "anthropic") {
			anthropicName = name
		}
	}
	anthropicName = cmp.Or(anthropicName, firstName)
	if f.full {
		return strings.NewReplacer(
			"  openai: {url: https://api.openai.com/v1}\n  anthropic: {url: https://api.anthropic.com}\n",
			lines,
			"  chat: openai\n", "  chat: "+firstName+"\n", "  responses: openai\n",
			"  responses: "+firstName+"\n",
			"  messages: anthropic\n", "  messages: "+anthropicName+"\n", "  other: openai\n",
			"  other: "+firstName+"\n",
		).Replace(configs.Reference()), nil
	}
	return fmt.Sprintf(shortConfig, lines, firstName, firstName, anthropicName, firstName), nil
}

// upstreamName returns a name such as openai for api.openai.com. If the name is taken, a number is appended.
func upstreamName(host string, taken map[string]bool) string {
	parts := slices.DeleteFunc(strings.Split(host, "."), func(s string) bool { return s == "api" || s == "www" || s == "" })
	name := "upstream"
	if len(parts) > 0 && strings.Trim(host, "0123456789.:[]") != "" {
		name = strings.ToLower(parts[max(0, len(parts)-2)])
	}
	for n, base := 2, name; taken[name]; n++ {
		name = fmt.Sprint(base, n)
	}
	return name
}

//go:embed begin/precept.yaml
var shortConfig string

// writeLessons writes the starter lessons with --starter; otherwise, it writes an example lesson if the directory is
// empty. It returns the paths of the written files.
func (f *initFlags) writeLessons(dir string) ([]string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // other users may read the lessons
		return nil, err
	}
	if f.starter {
		return writeStarter(dir)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) > 0 {
		return nil, err
	}
	file := filepath.Join(dir, "example.md")
	return []string{file}, createFile(file, exampleLesson)
}

// writeStarter writes the starter lessons that do not exist yet, and returns their paths.
func writeStarter(dir string) (written []string, err error) {
	starter := configs.StarterLessons()
	err = fs.WalkDir(starter, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path == "README.md" {
			return err
		}
		text, err := fs.ReadFile(starter, path)
		if err != nil {
			return err
		}
		file := filepath.Join(dir, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil { //nolint:gosec // other users may read the lessons
			return err
		}
		err = createFile(file, string(text))
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		written = append(written, file)
		return err
	})
	return written, err
}

func addDirectoryRemedy(err error) error {
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return fmt.Errorf("%w; make the directory writable for this user, or name another directory with --dir", err)
	}
	return err
}

// createFile creates a file. If the file exists, createFile leaves the file unchanged and returns fs.ErrExist.
func createFile(file, text string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // a file of the user's project, without secrets
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// exampleLesson is quarantined, so precept does not inject it.
//
//go:embed begin/LESSON.md
var exampleLesson string

// agentSettings returns, for each agent name, the setting that points the agent to precept. {} stands for the data
// listener's URL.
func agentSettings() map[string]string {
	const openai = "OPENAI_BASE_URL={}/v1"
	return map[string]string{
		"openai-sdk": openai, "openai-agents": openai, "langchain": openai, "pydantic-ai": openai,
		"smolagents": openai,
		"claude":     "ANTHROPIC_BASE_URL={}", "anthropic-sdk": "ANTHROPIC_BASE_URL={}",
		"ai-sdk":      `createOpenAI({baseURL: "{}/v1"})`,
		"llama-index": "OPENAI_API_BASE={}/v1",
		"codex":       `openai_base_url = "{}/v1" in ~/.codex/config.toml`,
		"opencode":    `"options": {"baseURL": "{}/v1"} for the provider in opencode.json`,
		"qwen":        openai + " with --auth-type openai",
		"pi":          `"baseUrl": "{}/v1" for the provider in ~/.pi/agent/models.json`,
		"cline":       "cline auth openai -k KEY -m MODEL -b {}/v1",
		"copilot":     "COPILOT_PROVIDER_BASE_URL={}/v1 COPILOT_MODEL=MODEL",
		"continue":    "apiBase: {}/v1 for the model in ~/.continue/config.yaml",
		"aider":       "OPENAI_API_BASE={}/v1 with --model openai/MODEL",
	}
}

func agentSetting(agent string) string {
	return strings.ReplaceAll(agentSettings()[agent], "{}", dataAddress)
}

func knownAgents() []string { return slices.Sorted(maps.Keys(agentSettings())) }
