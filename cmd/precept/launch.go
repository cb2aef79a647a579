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

// launch holds an agent's arguments and environment, changed so that all requests go to precept. Some agents need
// edited copies of settings files; the user's own files are not changed.
type launch struct {
	cfg      *configs.Config
	dataURL  string
	agent    string
	run      string // run for all agents; "" for none
	session  string // "" if each agent has its own sessions
	args     []string
	env      map[string]string
	home     string
	workDir  string
	tempPath string // folder for edited copies, removed by the caller
	stderr   io.Writer
}

// baseURL returns a precept base URL with the run, session and agent names. The URL also names the upstream, because
// the configured routes might choose a different one.
func (l *launch) baseURL(upstream string) string {
	escape := func(s string) string { return strings.NewReplacer(",", "%2C", "=", "%3D").Replace(url.PathEscape(s)) }
	name := "agent=" + escape(l.agent)
	if l.run != "" {
		name += ",run=" + escape(l.run)
	}
	if l.session != "" {
		name += ",session=" + escape(l.session)
	}
	if upstream != "" {
		name += ",upstream=" + escape(upstream)
	}
	return l.dataURL + "/p/" + name
}

// configure sets the variables that many agents read, and then the agent's own settings.
func (l *launch) configure() error {
	base := l.baseURL("")
	for _, name := range []string{
		"OPENAI_BASE_URL", "OPENAI_API_BASE", "COPILOT_PROVIDER_BASE_URL",
	} {
		l.env[name] = base + "/v1"
	}
	l.env["ANTHROPIC_BASE_URL"] = base
	if l.env["COPILOT_PROVIDER_TYPE"] == "anthropic" {
		l.env["COPILOT_PROVIDER_BASE_URL"] = base
	}
	for _, name := range []string{"NO_PROXY", "no_proxy"} { // an HTTP proxy cannot reach the loopback interface
		if at, err := url.Parse(l.dataURL); err == nil && !strings.Contains(l.env[name], at.Hostname()) {
			l.env[name] = strings.TrimPrefix(l.env[name]+","+at.Hostname(), ",")
		}
	}
	l.env["PRECEPT_SESSION"], l.env["PRECEPT_URL"] = cmp.Or(l.session, l.run), l.dataURL
	if l.run != "" {
		l.env["PRECEPT_RUN"] = l.run
	}
	switch programName(l.args) {
	case "codex":
		return l.configureCodex()
	case "opencode":
		return l.configureOpencode()
	case "pi":
		return l.configurePi()
	case "qwen":
		l.insertArguments("--auth-type", "--auth-type", "openai")
		return nil
	case "cn":
		return l.configureContinue()
	case "cline":
		fmt.Fprintln(
			l.stderr,
			"precept: cline reads the base URL from cline's settings; run this command first: cline auth openai -k KEY -m MODEL -b "+base+"/v1",
		)
	}
	return nil
}

// insertArguments inserts arguments after the program name, unless the user has given the flag. If flag is "", the
// arguments are always inserted.
func (l *launch) insertArguments(flag string, arguments ...string) {
	for _, a := range l.args[1:] {
		if flag != "" && (a == flag || strings.HasPrefix(a, flag+"=")) {
			return
		}
	}
	l.args = append(append([]string{l.args[0]}, arguments...), l.args[1:]...)
}

// findUpstream returns the name of the upstream with this base URL, and false if there is none. The name is "" for
// precept's own URL, and for the single upstream in the configuration key "upstream".
func (l *launch) findUpstream(base string) (upstream string, ok bool) {
	isSame := func(a, b string) bool {
		trim := func(s string) string { return strings.TrimSuffix(strings.TrimRight(s, "/"), "/v1") }
		return trim(a) == trim(b)
	}
	if isSame(base, l.dataURL) || strings.HasPrefix(base, l.dataURL+"/") {
		return "", true
	}
	if l.cfg.Upstream != "" {
		return "", isSame(base, l.cfg.Upstream)
	}
	for _, name := range slices.Sorted(maps.Keys(l.cfg.Upstreams)) {
		if isSame(base, l.cfg.Upstreams[name].URL) {
			return name, true
		}
	}
	return "", false
}

// redirect returns the precept URL that replaces base in a setting. If base belongs to none of precept's upstreams,
// redirect prints a note and returns false.
func (l *launch) redirect(setting, base string) (string, bool) {
	upstream, ok := l.findUpstream(base)
	if !ok {
		fmt.Fprintf(
			l.stderr,
			"precept: %s uses %s, which is not a configured upstream; its requests bypass precept unless you configure the URL as an upstream\n", setting,
			base,
		)
		return "", false
	}
	if strings.HasSuffix(strings.TrimRight(base, "/"), "/v1") {
		return l.baseURL(upstream) + "/v1", true
	}
	return l.baseURL(upstream), true
}

// programName returns the agent's name: "agent" for `python agent.py`, and "codex" for `npx codex`.
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
				if at := strings.LastIndex(a, "@"); at > 0 { // a version follows the @
					a = a[:at]
				}
				return name(a)
			}
		}
	}
	return first
}
