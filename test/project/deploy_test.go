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

// lastWrite is the time limit for the last write to the store at shutdown. It is equal to writeLimit in package store.
const lastWrite = 10 * time.Second

// maxStopDuration is the duration of the longest shutdown with the default settings. A supervisor, such as systemd,
// must wait longer before it kills precept.
const maxStopDuration = 30*time.Second + server.CutWait + lastWrite

func readRepoFile(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(repo, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// decodeStrictly decodes each YAML document in a file into the value to which target returns a pointer. It fails the
// test if a key is unknown or repeated.
func decodeStrictly(t *testing.T, name string, target func(document []byte) any) {
	t.Helper()
	for document := range strings.SplitSeq(readRepoFile(t, name), "\n---\n") {
		into := target([]byte(document))
		if err := yaml.NewDecoder(strings.NewReader(document), yaml.Strict()).Decode(into); err != nil {
			t.Fatalf("decode %s: %s", name, yaml.FormatError(err, false, true))
		}
	}
}

func imageEnv(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^ENV (.*)$`).FindAllStringSubmatch(readRepoFile(t, "Dockerfile"), -1) {
		for pair := range strings.FieldsSeq(m[1]) {
			name, value, _ := strings.Cut(pair, "=")
			out[name] = value
		}
	}
	if len(out) == 0 {
		t.Fatal("the Dockerfile has no ENV")
	}
	return out
}

type effectiveConfig struct {
	Listen string
	Admin  struct {
		Listen string
		Hosts  []string
	}
	DataDir string `yaml:"data_dir"`
	Lessons string
	Limits  struct {
		DrainDelay   time.Duration `yaml:"drain_delay"`
		DrainTimeout time.Duration `yaml:"drain_timeout"`
	}
	Log struct{ Format string }
}

// readEffectiveConfig returns the configuration that a precept command uses if it runs with the given environment
// variables.
func readEffectiveConfig(t *testing.T, env map[string]string, args ...string) (out effectiveConfig) {
	t.Helper()
	c := exec.CommandContext(t.Context(), "precept", append(args, "--print-config")...)
	c.Dir, c.Env = t.TempDir(), envList(env)
	c.Env = append(c.Env, "PATH="+os.Getenv("PATH"))
	var stderr bytes.Buffer
	c.Stderr = &stderr
	b, err := c.Output()
	if err != nil {
		t.Fatalf("precept %v --print-config: %v\n%s", args, err, stderr.String())
	}
	if err := yaml.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	if drain := out.Limits.DrainDelay + out.Limits.DrainTimeout; drain+server.CutWait+lastWrite != maxStopDuration {
		t.Errorf("limits.drain_delay + limits.drain_timeout = %s does not match maxStopDuration = %s; adapt maxStopDuration and the durations in deploy/", drain, maxStopDuration)
	}
	return out
}

func envList(env map[string]string) (out []string) {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		out = append(out, name+"="+env[name])
	}
	return out
}

// checkVariables fails the test for each PRECEPT_* variable that is not a setting of precept and is not used in the
// value of another variable.
func checkVariables(t *testing.T, file string, env map[string]string) {
	t.Helper()
	known := collectKnownNames(t).env
	for name := range env {
		base := strings.TrimSuffix(name, "_FILE")
		usedByOther := slices.ContainsFunc(slices.Collect(maps.Values(env)), func(value string) bool { return strings.Contains(value, "${"+base+"}") })
		if strings.HasPrefix(name, "PRECEPT_") && !known[name] && !usedByOther {
			t.Errorf("%s sets variable %s, which precept does not know", file, name)
		}
	}
}

func checkCommandLine(t *testing.T, file string, args []string) {
	t.Helper()
	known := collectKnownNames(t)
	cmd, rest := known.findCommand(args[:1])
	if len(rest) > 0 {
		t.Errorf("%s names %s, which is not a precept command", file, args[0])
	}
	known.checkFlags(cmd, strings.Join(args, " "), t.Errorf)
}

func portOf(t *testing.T, address string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func TestYAMLFilesUnderDeployHaveNoDuplicateKeys(t *testing.T) {
	t.Parallel()
	n := 0
	err := fs.WalkDir(os.DirFS(repo), "deploy", func(file string, d fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(file) == ".yaml" {
			n++
			decodeStrictly(t, file, func([]byte) any { return &map[string]any{} })
		}
		return err
	})
	if err != nil || n < 8 {
		t.Errorf("YAML files in deploy/: got %d, error %v, want at least 8", n, err)
	}
}

func TestDockerfileAgreesWithPrecept(t *testing.T) {
	t.Parallel()
	text, env := readRepoFile(t, "Dockerfile"), imageEnv(t)
	checkVariables(t, "Dockerfile", env)
	env["PRECEPT_ADMIN_TOKEN"] = "0123456789abcdef"
	c := readEffectiveConfig(t, env, "serve")
	if want := "EXPOSE " + portOf(t, c.Listen) + " " + portOf(t, c.Admin.Listen) + "\n"; !strings.Contains(text, want) {
		t.Errorf("the Dockerfile lacks %q", want)
	}
	for _, line := range []string{"VOLUME " + c.DataDir, "USER 65532:65532"} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("the Dockerfile lacks %q", line)
		}
	}
	for _, pattern := range []string{`HEALTHCHECK .*CMD \["/precept", "(.*)"\]`, `(?m)^CMD \["(.*)"\]$`} {
		m := regexp.MustCompile(pattern).FindStringSubmatch(text)
		if m == nil {
			t.Fatalf("the Dockerfile lacks a line that matches %s", pattern)
		}
		checkCommandLine(t, "Dockerfile", strings.Split(m[1], `", "`))
	}
	if want := "FROM --platform=$BUILDPLATFORM golang:" + goVersion(t) + "-"; !strings.Contains(text, want) {
		t.Errorf("the Dockerfile lacks %q, with the Go version in go.mod", want)
	}
}

func TestBinariesPrintBuildVersion(t *testing.T) {
	t.Parallel()
	flags := map[string]string{"Dockerfile": `-ldflags="(.*)"`, "Makefile": `(?m)^LDFLAGS +:= (.*)$`}
	seen := map[string]bool{}
	for name, pattern := range flags {
		m := regexp.MustCompile(pattern).FindStringSubmatch(readRepoFile(t, name))
		if m == nil {
			t.Fatalf("%s lacks linker flags that match %s", name, pattern)
		}
		linked := strings.NewReplacer("$(VERSION)", "v9.8.7", "$VERSION", "v9.8.7").Replace(m[1])
		if seen[linked] {
			continue
		}
		seen[linked] = true
		binary := filepath.Join(t.TempDir(), "precept")
		build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-ldflags="+linked, "-o", binary, "./cmd/precept")
		build.Dir = repo
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("go build with the flags in the %s: %v\n%s", name, err, out)
		}
		out, err := exec.CommandContext(t.Context(), binary, "version").CombinedOutput()
		if err != nil || !strings.HasPrefix(string(out), "precept v9.8.7 ") {
			t.Errorf("precept version, built with the linker flags in the %s: got %q, error %v, want precept v9.8.7", name, out, err)
		}
	}
	if !strings.Contains(readRepoFile(t, "Dockerfile"), "\nARG VERSION=\n") {
		t.Error("the Dockerfile lacks ARG VERSION=")
	}
}

func goVersion(t *testing.T) string {
	t.Helper()
	m := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(readRepoFile(t, "go.mod"))
	if m == nil {
		t.Fatal("go.mod has no Go version")
	}
	return m[1]
}

// parseUnit returns the values in a systemd unit by section and key. If a key occurs several times, its values are in
// the order of the file.
func parseUnit(t *testing.T, text string) map[string]map[string][]string {
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
			t.Fatalf("unit line %q: want a section or key=value", line)
		default:
			out[section][key] = append(out[section][key], value)
		}
	}
	return out
}

func TestSystemdUnitAgreesWithPrecept(t *testing.T) {
	t.Parallel()
	text := readRepoFile(t, "deploy/precept.service")
	s := parseUnit(t, text)["Service"]
	onlyValue := func(key string) string {
		if len(s[key]) != 1 {
			t.Fatalf("%s in [Service]: got values %q, want 1", key, s[key])
		}
		return s[key][0]
	}
	checkCommandLine(t, "precept.service", strings.Fields(onlyValue("ExecStart"))[1:])
	env := map[string]string{}
	for pair := range strings.FieldsSeq(onlyValue("Environment")) {
		name, value, _ := strings.Cut(pair, "=")
		env[name] = value
	}
	checkVariables(t, "precept.service", env)
	env["PRECEPT_UPSTREAM"] = "https://api.openai.com/v1"
	c := readEffectiveConfig(t, env, "serve")
	for dir := range strings.FieldsSeq(onlyValue("StateDirectory")) {
		if path := "/var/lib/" + dir; path != c.DataDir && path != c.Lessons {
			t.Errorf("StateDirectory: got %s, want the value of data_dir, %s, or of lessons, %s", path, c.DataDir, c.Lessons)
		}
	}
	if limit, err := time.ParseDuration(onlyValue("TimeoutStopSec") + "s"); err != nil || limit <= maxStopDuration {
		t.Errorf("TimeoutStopSec: got %s, want more than %s, the longest shutdown", limit, maxStopDuration)
	}
	if onlyValue("Type") != "notify" || !strings.Contains(onlyValue("ExecReload"), "-HUP $MAINPID") || onlyValue("SuccessExitStatus") != "3" || onlyValue("RestartPreventExitStatus") != "2" {
		t.Errorf(`[Service]: got %v, want Type notify, ExecReload with "-HUP $MAINPID", SuccessExitStatus 3 and RestartPreventExitStatus 2`, s)
	}
	verifyUnit(t, text)
}

func verifyUnit(t *testing.T, text string) {
	t.Helper()
	tool, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Log("systemd-analyze is not installed, so the unit is not verified")
		return
	}
	binary, err := exec.LookPath("precept")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "precept.service")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(text, "/usr/local/bin/precept", binary)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"verify", "--man=no", file}, {"security", "--offline=true", "--threshold=20", file}} {
		out, err := exec.CommandContext(t.Context(), tool, args...).CombinedOutput()
		if warned := strings.Contains(string(out), "precept.service:") && args[0] == "verify"; err != nil || warned { // systemd-analyze reports a misspelt key only as a warning
			t.Errorf("systemd-analyze %v: got error %v, want none, and no warning about precept.service\n%s", args, err, out)
		}
	}
}

// statusForHost sends a GET request with the given Host header and bearer token, and returns the status of the
// response.
func statusForHost(t *testing.T, url, host, token string) int {
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

func pathExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
