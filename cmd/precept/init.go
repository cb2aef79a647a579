package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"precept/configs"
)

// beginning is what `precept init` is asked for.
type beginning struct {
	dir       string
	upstreams []string
	agents    []string
	starter   bool
	full      bool
}

// initVerb writes what a newcomer begins with.
func (w *world) initVerb() *cobra.Command {
	var b beginning
	c := &cobra.Command{
		Use:   "init",
		Short: "Write a commented configuration, and tell how to point your agents at it",
		Long: "Init writes precept.yaml and a directory of lessons for the upstreams and agents that it is told of. It never overwrites a file.\n\n" +
			"    precept init --upstream https://api.openai.com/v1 --agent codex",
		Args: arguments(cobra.NoArgs),
	}
	c.Flags().StringVar(&b.dir, "dir", ".", "where to write")
	c.Flags().StringArrayVar(&b.upstreams, "upstream", nil, "an upstream, as one would set OPENAI_BASE_URL; may be given several times (default those of OpenAI and Anthropic)")
	c.Flags().StringSliceVar(&b.agents, "agent", nil, "an agent that is to use it: "+strings.Join(knownAgents(), ", ")+"; may be given several times, or with commas")
	c.Flags().BoolVar(&b.starter, "starter", false, "write the starter lessons that come with precept, too")
	c.Flags().BoolVar(&b.full, "full", false, "write every key with its comment, not only the usual ones")
	c.RunE = func(*cobra.Command, []string) error { return w.begin(&b) }
	return c
}

// begin writes the files and tells what to do next.
func (w *world) begin(b *beginning) error {
	for _, a := range b.agents {
		if _, ok := pointingLines()[a]; !ok {
			return misuse(fmt.Errorf("--agent %s is not known; use one of %s, or none and see README", a, strings.Join(knownAgents(), ", ")))
		}
	}
	if len(b.upstreams) == 0 {
		b.upstreams = []string{"https://api.openai.com/v1", "https://api.anthropic.com"}
	}
	text, err := b.config()
	if err != nil {
		return misuse(err)
	}
	if _, err := configs.Parse(configs.Sources{File: []byte(text), FileName: "precept.yaml", Env: func(string) (string, bool) { return "", false }}); err != nil {
		return misuse(err)
	}
	file := filepath.Join(b.dir, "precept.yaml")
	lessons := filepath.Join(b.dir, "lessons")
	if err := os.MkdirAll(b.dir, 0o755); err != nil { //nolint:gosec // it is the user's
		return err
	}
	if err := create(file, text); err != nil {
		return err
	}
	fmt.Fprintln(w.out, "wrote", file)
	if err := b.lessons(lessons, w); err != nil {
		return err
	}
	fmt.Fprintf(w.out, "\nStart it:\n    precept serve --config %s\n", file)
	if len(b.agents) == 0 {
		fmt.Fprintf(w.out, "\nPoint an agent at it: most read OPENAI_BASE_URL=%s/v1 or ANTHROPIC_BASE_URL=%s.\n", dataAddress, dataAddress)
		return nil
	}
	fmt.Fprintln(w.out, "\nPoint your agents at it; they keep their own keys:")
	for _, a := range b.agents {
		fmt.Fprintf(w.out, "    %-12s %s\n", a, strings.ReplaceAll(pointingLines()[a], "{}", dataAddress))
	}
	return nil
}

// dataAddress is where the data listener of the configuration is.
const dataAddress = "http://127.0.0.1:8080"

// config is the configuration's text.
func (b *beginning) config() (string, error) {
	names := map[string]bool{}
	var lines, first, messages string
	for _, raw := range b.upstreams {
		u, err := url.Parse(raw)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return "", fmt.Errorf("--upstream %q is no http or https URL; write it like https://api.openai.com/v1", raw)
		}
		name := upstreamName(u.Hostname(), names)
		names[name], first = true, cmp.Or(first, name)
		lines += fmt.Sprintf("  %s: {url: %q}\n", name, raw)
		if strings.Contains(name, "anthropic") {
			messages = name
		}
	}
	messages = cmp.Or(messages, first)
	if b.full {
		return strings.NewReplacer(
			"  openai: {url: https://api.openai.com/v1}\n  anthropic: {url: https://api.anthropic.com}\n", lines,
			"  chat: openai\n", "  chat: "+first+"\n", "  responses: openai\n", "  responses: "+first+"\n",
			"  messages: anthropic\n", "  messages: "+messages+"\n", "  other: openai\n", "  other: "+first+"\n",
		).Replace(configs.Reference()), nil
	}
	return fmt.Sprintf(shortConfig, lines, first, first, messages, first), nil
}

// upstreamName makes a name out of a host: api.openai.com is openai.
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

// shortConfig holds the keys that people set. The verbs are those of Printf.
const shortConfig = `# precept.yaml: the keys that are usually set. Every other has a default: precept check --print shows them all in force,
# precept init --full writes them with their comments. precept check tells all faults of this file at once.

# Where agents send their requests.
listen: 127.0.0.1:8080

admin:
  # Dashboard, report and metrics. The first start prints a link with the token, which lies in <data_dir>/admin-token.
  listen: 127.0.0.1:8081
  # What a million input tokens cost you, and those that the provider's prompt cache had: the overview tells costs in money then.
  price_input: 0
  price_cached: 0

# Where requests go. No client can name one that is not here. Agents keep their own API keys.
upstreams:
%s
# Which upstream answers which API.
routes:
  chat: %s
  responses: %s
  messages: %s
  other: %s

# The lessons: Markdown files, in force two seconds after they are saved.
lessons: ./lessons

# Samples, evidence and secrets of precept's own.
data_dir: ./data

bandit:
  # The share of a lesson's picks that is withheld, so that its effect can be measured.
  epsilon: 0.2
  # prove (until a lesson's effect is known), earn (until it is believed to help) or fixed.
  holdout: prove

learning:
  # Nothing of a turn is kept that names one of these paths.
  opt_out_patterns: []
`

// lessons makes the directory of lessons.
func (b *beginning) lessons(dir string, w *world) error {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // people share it
		return err
	}
	if b.starter {
		return w.startWith(dir)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) > 0 {
		return err
	}
	file := filepath.Join(dir, "example.md")
	if err := create(file, exampleLesson); err != nil {
		return err
	}
	fmt.Fprintln(w.out, "wrote", file, "(an example that says nothing to anybody: it is quarantined)")
	return nil
}

// startWith copies the starter lessons.
func (w *world) startWith(dir string) error {
	starter, n := configs.Starter(), 0
	err := fs.WalkDir(starter, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path == "README.md" {
			return err
		}
		text, err := fs.ReadFile(starter, path)
		if err != nil {
			return err
		}
		file := filepath.Join(dir, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil { //nolint:gosec // people share it
			return err
		}
		n++
		return create(file, string(text))
	})
	if err == nil {
		fmt.Fprintf(w.out, "wrote %d starter lessons to %s\n", n, dir)
	}
	return err
}

// create writes a file that is not there yet.
func create(file, text string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // it is the user's, and holds no secret
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s is there already, and is left as it is; move it away, or use --dir", file)
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// exampleLesson shows the form.
const exampleLesson = `---
schema: learning/v1
slug: example
title: Run the tests once more after the last edit.
trigger:
  description: The user asks for a change that is to be verified.
  metadata:
    precept:
      keywords: ["make sure it works", "make sure everything works"]
outcome: success
evidence:
  - {kind: wiki-page, ref: docs/handbook.md}
confidence: 0.5
metadata:
  precept:
    state: quarantined
---

## What to do (or avoid)

This is an example. Write what to do here in two or three sentences, then ` + "`precept lessons approve example`" + ` takes it into force.
`

// pointingLines tell what each agent is to be set to; {} is the data listener's address.
func pointingLines() map[string]string {
	const openai = "OPENAI_BASE_URL={}/v1"
	return map[string]string{
		"openai-sdk": openai, "openai-agents": openai, "langchain": openai, "pydantic-ai": openai, "smolagents": openai,
		"claude": "ANTHROPIC_BASE_URL={}", "anthropic-sdk": "ANTHROPIC_BASE_URL={}",
		"ai-sdk":      `createOpenAI({baseURL: "{}/v1"})`,
		"llama-index": "OPENAI_API_BASE={}/v1",
		"codex":       `openai_base_url = "{}/v1" in ~/.codex/config.toml`,
		"opencode":    `"options": {"baseURL": "{}/v1"} of the provider in opencode.json`,
		"qwen":        openai + " with --auth-type openai",
		"pi":          `"baseUrl": "{}/v1" of the provider in ~/.pi/agent/models.json`,
		"cline":       "cline auth openai -k KEY -m MODEL -b {}/v1",
		"copilot":     "COPILOT_PROVIDER_BASE_URL={}/v1 COPILOT_MODEL=MODEL",
		"continue":    "apiBase: {}/v1 of the model in ~/.continue/config.yaml",
		"aider":       "OPENAI_API_BASE={}/v1 with --model openai/MODEL",
	}
}

// knownAgents are their names.
func knownAgents() []string { return slices.Sorted(maps.Keys(pointingLines())) }
