package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"precept/configs"
)

// pointing describes how the process of an agent is pointed to precept: by arguments, environment variables, and
// edited copies of the agent's settings in a temporary folder. The user's own files are not changed.
type pointing struct {
	cfg     *configs.Config
	data    string // URL of precept's data listener
	agent   string
	run     string // run of all agents of the command; "" if none
	session string // session of all agents of the command; "" means each agent has its own sessions
	args    []string
	env     map[string]string // environment of the agent
	home    string            // home directory of the user
	work    string            // working directory
	temp    string            // folder for edited copies, created on demand; the caller removes it
	notes   io.Writer         // receives messages to the user
}

// base returns the base URL with the names of the run, the session and the agent. If upstream is not empty, the URL
// also names the upstream, because the routes might choose a different one.
func (p *pointing) base(upstream string) string {
	escape := func(s string) string { return strings.NewReplacer(",", "%2C", "=", "%3D").Replace(url.PathEscape(s)) }
	name := "agent=" + escape(p.agent)
	if p.run != "" {
		name += ",run=" + escape(p.run)
	}
	if p.session != "" {
		name += ",session=" + escape(p.session)
	}
	if upstream != "" {
		name += ",upstream=" + escape(upstream)
	}
	return p.data + "/p/" + name
}

// point sets the environment variables that many programs read, and the settings of the agent.
func (p *pointing) point() error {
	base := p.base("")
	for _, name := range []string{
		"OPENAI_BASE_URL", "OPENAI_API_BASE", "COPILOT_PROVIDER_BASE_URL",
	} {
		p.env[name] = base + "/v1"
	}
	p.env["ANTHROPIC_BASE_URL"] = base
	if p.env["COPILOT_PROVIDER_TYPE"] == "anthropic" {
		p.env["COPILOT_PROVIDER_BASE_URL"] = base
	}
	for _, name := range []string{"NO_PROXY", "no_proxy"} { // a proxy in the environment cannot reach this machine's loopback interface
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
		p.insertArguments("--auth-type", "--auth-type", "openai")
		return nil
	case "cn":
		return p.continueCLI()
	case "cline":
		fmt.Fprintln(
			p.notes,
			"precept: cline reads its base URL from its own settings; run this command first: cline auth openai -k KEY -m MODEL -b "+base+"/v1",
		)
	}
	return nil
}

// insertArguments inserts arguments after the name of the program, unless the user has given the flag.
func (p *pointing) insertArguments(flag string, arguments ...string) {
	for _, a := range p.args[1:] {
		if flag != "" && (a == flag || strings.HasPrefix(a, flag+"=")) {
			return
		}
	}
	p.args = append(append([]string{p.args[0]}, arguments...), p.args[1:]...)
}

// upstreamOf returns the name of the upstream with the given base URL. The name is empty for precept's own URL, and
// for the upstream that the key upstream configures. ok is false if no upstream has the base URL.
func (p *pointing) upstreamOf(base string) (upstream string, ok bool) {
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
	for _, name := range slices.Sorted(maps.Keys(p.cfg.Upstreams)) {
		if same(base, p.cfg.Upstreams[name].URL) {
			return name, true
		}
	}
	return "", false
}

// redirect returns the URL of precept that replaces the base URL in a setting. The result ends in /v1 if base does.
// If base is not an upstream of precept, redirect prints a note and returns false.
func (p *pointing) redirect(setting, base string) (string, bool) {
	upstream, ok := p.upstreamOf(base)
	if !ok {
		fmt.Fprintf(
			p.notes,
			"precept: %s uses %s, which is not an upstream of precept; the setting is unchanged\n", setting,
			base,
		)
		return "", false
	}
	if strings.HasSuffix(strings.TrimRight(base, "/"), "/v1") {
		return p.base(upstream) + "/v1", true
	}
	return p.base(upstream), true
}

// programName returns the name of the agent in a command line, such as agent for `python agent.py` and codex for `npx
// codex`.
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
			if !strings.HasPrefix(a, "-") && a != "run" && a != "exec" && a != "dlx" &&
				!strings.Contains(a, "=") {
				if at := strings.LastIndex(a, "@"); at > 0 { // a version
					a = a[:at]
				}
				return name(a)
			}
		}
	}
	return first
}
