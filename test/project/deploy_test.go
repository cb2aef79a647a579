package project

import (
	"bytes"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"precept/cmd/precept/server"
)

// lastWrite is the time limit of the store's last write at a stop (writeLimit of package store).
const lastWrite = 10 * time.Second

// stopNeeds is the maximum duration of a stop with the default settings. A supervisor must not kill precept earlier.
const stopNeeds = 30*time.Second + server.CutWait + lastWrite

// deployed returns a file under deploy/, or the Dockerfile.
func deployed(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(repo, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// strictly decodes the documents of a YAML file and fails on unknown and repeated keys. next
// returns the target of a document.
func strictly(t *testing.T, name string, next func(document []byte) any) {
	t.Helper()
	for document := range strings.SplitSeq(deployed(t, name), "\n---\n") {
		into := next([]byte(document))
		if err := yaml.NewDecoder(strings.NewReader(document), yaml.Strict()).Decode(into); err != nil {
			t.Fatalf("%s: got %s, want no error", name, yaml.FormatError(err, false, true))
		}
	}
}

// imageEnv returns the variables that the image sets.
func imageEnv(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^ENV (.*)$`).FindAllStringSubmatch(deployed(t, "Dockerfile"), -1) {
		for pair := range strings.FieldsSeq(m[1]) {
			name, value, _ := strings.Cut(pair, "=")
			out[name] = value
		}
	}
	if len(out) == 0 {
		t.Fatal("the Dockerfile sets no variable")
	}
	return out
}

// effectiveConfig is the configuration that serve would use.
type effectiveConfig struct {
	Listen string
	Admin  struct {
		Listen string
		Hosts  []string
	}
	DataDir string `yaml:"data_dir"`
	Lessons string
	Limits  struct {
		DrainTimeout string `yaml:"drain_timeout"`
	}
	Log struct{ Format string }
}

// effective returns the configuration that the real binary reads from variables and arguments.
func effective(t *testing.T, env map[string]string, args ...string) (out effectiveConfig) {
	t.Helper()
	c := exec.CommandContext(t.Context(), "precept", append(args, "--print-config")...)
	c.Dir, c.Env = t.TempDir(), pairs(env)
	c.Env = append(c.Env, "PATH="+os.Getenv("PATH"))
	var output bytes.Buffer
	c.Stderr = &output
	b, err := c.Output()
	if err != nil {
		t.Fatalf("precept serve --print-config failed: %v: %s", err, output.String())
	}
	if err := yaml.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	if drain, err := time.ParseDuration(out.Limits.DrainTimeout); err != nil || drain+server.CutWait+lastWrite != stopNeeds {
		t.Errorf("the drain takes %s, want %s in total: adapt the times in deploy/ to the drain", out.Limits.DrainTimeout, stopNeeds)
	}
	return out
}

// pairs returns the variables as name=value, sorted.
func pairs(env map[string]string) (out []string) {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		out = append(out, name+"="+env[name])
	}
	return out
}

// onlyKnown fails on a variable that precept does not read.
func onlyKnown(t *testing.T, where string, env map[string]string) {
	t.Helper()
	known := gatherPromises(t).env
	for name := range env {
		base := strings.TrimSuffix(name, "_FILE")
		named := slices.ContainsFunc(slices.Collect(maps.Values(env)), func(value string) bool { return strings.Contains(value, "${"+base+"}") })
		if strings.HasPrefix(name, "PRECEPT_") && !known[name] && !named {
			t.Errorf("%s sets the variable %s, which precept does not read", where, name)
		}
	}
}

// runnable fails on a command line that the program refuses.
func runnable(t *testing.T, where string, args []string) {
	t.Helper()
	p := gatherPromises(t)
	verb, rest := p.command(args[:1])
	if len(rest) > 0 {
		t.Errorf("%s: precept has no verb %s", where, args[0])
	}
	p.flags(verb, strings.Join(args, " "), t.Errorf)
}

// port returns the port of an address.
func port(t *testing.T, address string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// Each deployed YAML file is valid YAML without duplicate keys.
func TestDeployedYAMLHasNoDuplicateKeys(t *testing.T) {
	t.Parallel()
	n := 0
	err := fs.WalkDir(os.DirFS(repo), "deploy", func(file string, d fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(file) == ".yaml" {
			n++
			strictly(t, file, func([]byte) any { return &map[string]any{} })
		}
		return err
	})
	if err != nil || n < 8 {
		t.Errorf("got %d YAML files, error %v, want at least 8", n, err)
	}
}

// The image uses existing variables, commands and ports, and has a health check.
func TestDockerfileNamesExistingVariablesAndVerbs(t *testing.T) {
	t.Parallel()
	text, env := deployed(t, "Dockerfile"), imageEnv(t)
	onlyKnown(t, "Dockerfile", env)
	env["PRECEPT_ADMIN_TOKEN"] = "0123456789abcdef"
	c := effective(t, env, "serve")
	if want := "EXPOSE " + port(t, c.Listen) + " " + port(t, c.Admin.Listen) + "\n"; !strings.Contains(text, want) {
		t.Errorf("the Dockerfile has no %s", want)
	}
	if !strings.Contains(text, "VOLUME "+c.DataDir+"\n") || !strings.Contains(text, "\nUSER 65532:65532\n") {
		t.Error("the data directory is not a volume, or the user is root")
	}
	for _, form := range []string{`HEALTHCHECK .*CMD \["/precept", "(.*)"\]`, `(?m)^CMD \["(.*)"\]$`} {
		m := regexp.MustCompile(form).FindStringSubmatch(text)
		if m == nil {
			t.Fatalf("the Dockerfile has no line of the form %s", form)
		}
		runnable(t, "Dockerfile", strings.Split(m[1], `", "`))
	}
	if _, err := os.Stat(filepath.Join(repo, "go.mod")); err != nil || !strings.Contains(text, "FROM --platform=$BUILDPLATFORM golang:"+goVersion(t)+"-") {
		t.Errorf("the image is not built with the Go of go.mod: %v", err)
	}
}

// goVersion returns major and minor version of Go in go.mod.
func goVersion(t *testing.T) string {
	t.Helper()
	m := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(deployed(t, "go.mod"))
	if m == nil {
		t.Fatal("go.mod has no line with the version of Go")
	}
	return m[1]
}

// unit parses a systemd unit: section, key, and all values of the key in their order.
func unit(t *testing.T, text string) map[string]map[string][]string {
	t.Helper()
	out, section := map[string]map[string][]string{}, ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		key, value, ok := strings.Cut(line, "=")
		switch {
		case line == "" || line[0] == '#':
		case line[0] == '[':
			section = strings.Trim(line, "[]")
			out[section] = map[string][]string{}
		case !ok || section == "":
			t.Fatalf("%q is not a line of a systemd unit", line)
		default:
			out[section][key] = append(out[section][key], value)
		}
	}
	return out
}

// The unit starts an existing command, with write access to its directory, reloads, and allows for the drain.
func TestSystemdUnitStartsReloadsAndDrains(t *testing.T) {
	t.Parallel()
	text := deployed(t, "deploy/precept.service")
	s := unit(t, text)["Service"]
	one := func(key string) string {
		if len(s[key]) != 1 {
			t.Fatalf("%s: got %q, want one entry in s[key]", key, s[key])
		}
		return s[key][0]
	}
	runnable(t, "precept.service", strings.Fields(one("ExecStart"))[1:])
	env := map[string]string{}
	for pair := range strings.FieldsSeq(one("Environment")) {
		name, value, _ := strings.Cut(pair, "=")
		env[name] = value
	}
	onlyKnown(t, "precept.service", env)
	env["PRECEPT_UPSTREAM"] = "https://api.openai.com/v1"
	c := effective(t, env, "serve")
	for dir := range strings.FieldsSeq(one("StateDirectory")) {
		if at := "/var/lib/" + dir; at != c.DataDir && at != c.Lessons {
			t.Errorf("%s is a state directory, and neither %s nor %s", at, c.DataDir, c.Lessons)
		}
	}
	if limit, err := time.ParseDuration(one("TimeoutStopSec") + "s"); err != nil || limit <= stopNeeds {
		t.Errorf("TimeoutStopSec %s is not longer than a stop, %s", limit, stopNeeds)
	}
	if one("Type") != "notify" || !strings.Contains(one("ExecReload"), "-HUP $MAINPID") || one("SuccessExitStatus") != "3" || one("RestartPreventExitStatus") != "2" {
		t.Errorf(`got %v, want Type notify, ExecReload with "-HUP $MAINPID", SuccessExitStatus 3 and RestartPreventExitStatus 2`, s)
	}
	verifyUnit(t, text)
}

// verifyUnit checks the unit with systemd, and the exposure level that systemd computes for a compromised service.
func verifyUnit(t *testing.T, text string) {
	t.Helper()
	tool, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Log("the check is skipped: systemd-analyze is not installed")
		return
	}
	binary, err := exec.LookPath("precept")
	if err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(t.TempDir(), "precept.service")
	if err := os.WriteFile(at, []byte(strings.ReplaceAll(text, "/usr/local/bin/precept", binary)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"verify", "--man=no", at}, {"security", "--offline=true", "--threshold=20", at}} {
		out, err := exec.CommandContext(t.Context(), tool, args...).CombinedOutput()
		if unknown := strings.Contains(string(out), "precept.service:") && args[0] == "verify"; err != nil || unknown { // a misspelt key is a warning
			t.Errorf("systemd-analyze %v: error %v\n%s", args, err, out)
		}
	}
}

// statusAs returns the status of a GET request with a Host header and a token.
func statusAs(t *testing.T, url, host, token string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	return res.StatusCode
}

// exists reports whether there is a file or directory at path.
func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
