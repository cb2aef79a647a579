package project

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"precept/test/harness"

	"github.com/goccy/go-yaml"

	"precept/store/storetest"
)

type composeFile struct {
	Name     string
	Precept  composeService `yaml:"x-precept"`
	Services map[string]composeService
	Secrets  map[string]struct{ File string }
	Volumes  map[string]*struct{}
}

type composeService struct {
	Build       string
	Image       string
	Restart     string
	ReadOnly    bool     `yaml:"read_only"`
	CapDrop     []string `yaml:"cap_drop"`
	SecurityOpt []string `yaml:"security_opt"`
	StopGrace   string   `yaml:"stop_grace_period"`
	User        string
	Tmpfs       []string
	Command     []string
	Environment map[string]string
	Volumes     []string
	Secrets     []string
	Ports       []string
	DependsOn   []string `yaml:"depends_on"`
}

// upstreamURL is a value for the variable OPENAI_BASE_URL, which users must export.
const upstreamURL = "https://api.openai.com/v1"

// interpolate replaces ${OPENAI_BASE_URL:?...} by the URL and $$ by $, as Compose does.
func interpolate(t *testing.T, text string) string {
	t.Helper()
	text = regexp.MustCompile(`(^|[^$])\$\{(\w+):\?[^}]*\}`).ReplaceAllStringFunc(text, func(variable string) string {
		if !strings.Contains(variable, "${OPENAI_BASE_URL:") {
			t.Errorf("compose.yaml needs variable %s, want only OPENAI_BASE_URL, as explained at the top of the file", variable)
		}
		return upstreamURL
	})
	return strings.ReplaceAll(text, "$$", "$")
}

// readCompose returns the decoded compose.yaml and the secrets directory. It creates the secrets with the commands at
// the top of compose.yaml.
func readCompose(t *testing.T) (c composeFile, secrets string) {
	t.Helper()
	decodeStrictly(t, "deploy/compose.yaml", func([]byte) any { return &c })
	dir := t.TempDir()
	var script []string
	for line := range strings.Lines(readRepoFile(t, "deploy/compose.yaml")) {
		if text, ok := strings.CutPrefix(line, "#   "); ok && !strings.HasPrefix(text, "docker") {
			script = append(script, text)
		}
	}
	sh := exec.CommandContext(t.Context(), "sh", "-ec", "mkdir deploy\n"+strings.Join(script, ""))
	sh.Dir = dir
	if out, err := sh.CombinedOutput(); err != nil {
		t.Fatalf("run the commands at the top of compose.yaml: %v\n%s", err, out)
	}
	for name, s := range c.Secrets {
		info, err := os.Stat(filepath.Join(dir, "deploy", filepath.FromSlash(s.File)))
		if err != nil || info.Mode().Perm() != 0o644 || info.Size() < 16 {
			t.Errorf("secret %s: got %v, error %v, want at least 16 bytes and mode 0644, because each container reads the file", name, info, err)
		}
	}
	secrets = filepath.Join(dir, "deploy", "secrets")
	if info, err := os.Stat(secrets); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("secrets directory: got %v, error %v, want mode 0700", info, err)
	}
	return c, secrets
}

func readSecret(t *testing.T, secrets, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(secrets, name))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

// serviceEnv returns the environment of a service: the variables of the image, and the variables of the service, which
// take precedence.
func serviceEnv(t *testing.T, s composeService, secrets string) map[string]string {
	t.Helper()
	env := imageEnv(t)
	for name, value := range s.Environment {
		env[name] = strings.ReplaceAll(interpolate(t, value), "/run/secrets", secrets)
	}
	return env
}

func TestComposeServicesHaveLeastPrivileges(t *testing.T) {
	t.Parallel()
	c, _ := readCompose(t)
	for name, s := range c.Services {
		if !slices.Equal(s.CapDrop, []string{"ALL"}) || !slices.Contains(s.SecurityOpt, "no-new-privileges:true") {
			t.Errorf("service %s: got cap_drop %v, security_opt %v, want ALL and no-new-privileges:true", name, s.CapDrop, s.SecurityOpt)
		}
		if !s.ReadOnly && name != "grafana" {
			t.Errorf("service %s: got read_only false, want true", name)
		}
		text := strings.Join(s.Command, " ")
		for key, value := range s.Environment {
			text += " " + key + "=" + value
		}
		if strings.Contains(text, "PASSWORD:?") || strings.Contains(text, "TOKEN:?") {
			t.Errorf("service %s: the command or environment %s contains a secret, want only the path of the secret's file", name, text)
		}
		for _, secret := range s.Secrets {
			if _, ok := c.Secrets[secret]; !ok || s.Image != "prom/prometheus:v3.5.0" && !strings.Contains(text, "/run/secrets/"+secret) {
				t.Errorf("service %s: got secret %s, defined: %v, want a defined secret whose file is named in the command or environment, %s", name, secret, ok, text)
			}
		}
	}
	for _, file := range []string{".gitignore", ".dockerignore"} {
		if !strings.Contains(readRepoFile(t, file), "deploy/secrets\n") && !strings.Contains(readRepoFile(t, file), "deploy/secrets/\n") {
			t.Errorf("%s lacks deploy/secrets", file)
		}
	}
}

func TestComposeNamesAndPortsAgree(t *testing.T) {
	t.Parallel()
	c, secrets := readCompose(t)
	var targets, upstreams []string
	for name, s := range c.Services {
		for _, dependency := range s.DependsOn {
			if _, ok := c.Services[dependency]; !ok {
				t.Errorf("%s depends on %s, which is not a service", name, dependency)
			}
		}
		for _, v := range s.Volumes {
			source, _, _ := strings.Cut(v, ":")
			if _, named := c.Volumes[source]; !named && !pathExists(filepath.Join(repo, "deploy", source)) {
				t.Errorf("%s mounts %s, which is neither a volume nor a file in deploy", name, source)
			}
		}
		for _, p := range s.Ports {
			if !strings.HasPrefix(p, "127.0.0.1:") {
				t.Errorf("%s publishes port %s, want a port on 127.0.0.1", name, p)
			}
		}
		if s.Image != "precept" {
			continue
		}
		env := serviceEnv(t, s, secrets)
		checkVariables(t, "compose.yaml", env)
		config := readEffectiveConfig(t, env, "serve")
		targets, upstreams = append(targets, name+":"+portOf(t, config.Admin.Listen)), append(upstreams, "server "+name+":"+portOf(t, config.Listen)+" max_fails=0;")
		if config.Lessons != "redis://" || config.DataDir != "/data" || config.Log.Format != "json" || !slices.Contains(config.Admin.Hosts, name) {
			t.Errorf(`%s: got configuration %+v, want lessons in Redis, data in /data, a JSON log and host %q`, name, config, name)
		}
		if grace, err := time.ParseDuration(s.StopGrace); err != nil || grace <= maxStopDuration {
			t.Errorf("%s: got stop_grace_period %s, want more than %s", name, s.StopGrace, maxStopDuration)
		}
		if !s.ReadOnly || !pathExists(filepath.Join(repo, "deploy", s.Build, "Dockerfile")) {
			t.Errorf("%s: got read_only %v, build %s, want true and a directory with a Dockerfile", name, s.ReadOnly, s.Build)
		}
	}
	slices.Sort(targets)
	if len(targets) != 3 {
		t.Fatalf("services with the image precept: got %v, want 3", targets)
	}
	nginx := readRepoFile(t, "deploy/nginx.conf")
	for _, u := range upstreams {
		if !strings.Contains(nginx, u) {
			t.Errorf("nginx.conf lacks %q", u)
		}
	}
	if got := readPrometheus(t).ScrapeConfigs[0].StaticConfigs[0].Targets; !slices.Equal(got, targets) {
		t.Errorf("Prometheus targets: got %v, want %v", got, targets)
	}
}

type prometheusConfig struct {
	ScrapeConfigs []struct {
		Authorization struct {
			CredentialsFile string `yaml:"credentials_file"`
		}
		StaticConfigs []struct{ Targets []string } `yaml:"static_configs"`
	} `yaml:"scrape_configs"`
}

func readPrometheus(t *testing.T) (p prometheusConfig) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(readRepoFile(t, "deploy/prometheus.yaml")), &p); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestComposePrometheusConfigIsValid(t *testing.T) {
	t.Parallel()
	tool := findPromtool(t)
	c, secrets := readCompose(t)
	config, dir := "", t.TempDir()
	for _, v := range c.Services["prometheus"].Volumes {
		source, target, _ := strings.Cut(strings.TrimSuffix(v, ":ro"), ":")
		if !strings.HasPrefix(target, "/etc/prometheus/") {
			continue
		}
		text := strings.ReplaceAll(readRepoFile(t, filepath.Join("deploy", source)), "/etc/prometheus/", dir+"/")
		text = strings.ReplaceAll(text, "/run/secrets", secrets)
		target = filepath.Join(dir, filepath.Base(target))
		if err := os.WriteFile(target, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if filepath.Base(target) == "prometheus.yml" {
			config = target
		}
	}
	out, err := exec.CommandContext(t.Context(), tool, "check", "config", config).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "1 rule files found") || !strings.Contains(string(out), "rules found") {
		t.Errorf("promtool check config: got error %v, want no error and 1 rule file with rules\n%s", err, out)
	}
}

func TestComposeGrafanaHasDataSourceAndDashboards(t *testing.T) {
	t.Parallel()
	c, _ := readCompose(t)
	var source struct {
		APIVersion  int `yaml:"apiVersion"`
		Datasources []struct {
			Name, UID, Type, Access, URL string
			IsDefault                    bool `yaml:"isDefault"`
		}
	}
	decodeStrictly(t, "deploy/grafana/datasources/precept.yaml", func([]byte) any { return &source })
	var boards struct {
		APIVersion int `yaml:"apiVersion"`
		Providers  []struct {
			Name, Type string
			Options    struct{ Path string }
		}
	}
	decodeStrictly(t, "deploy/grafana/dashboards/precept.yaml", func([]byte) any { return &boards })
	if s := source.Datasources[0]; s.URL != "http://prometheus:9090" || !s.IsDefault || c.Services["prometheus"].Image == "" {
		t.Errorf("Grafana data source: got %+v, want http://prometheus:9090 as the default data source, and a service with the name prometheus", s)
	}
	if !slices.Contains(c.Services["grafana"].Volumes, "../configs/grafana:"+boards.Providers[0].Options.Path+":ro") {
		t.Errorf("Grafana volumes: got %q, want ../configs/grafana at %s", c.Services["grafana"].Volumes, boards.Providers[0].Options.Path)
	}
}

func TestComposeStartsPreceptAndRedis(t *testing.T) {
	t.Parallel()
	c, secrets := readCompose(t)
	script := strings.ReplaceAll(interpolate(t, c.Services["redis"].Command[2]), "/run/secrets", secrets)
	server := storetest.StartRedisScript(t, script)
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", server.PID()))
	if password := readSecret(t, secrets, "redis-password"); err == nil && (bytes.Contains(line, []byte(password)) || !bytes.Contains(line, []byte("redis-server"))) {
		t.Errorf("Redis command line: got %q, want redis-server without a password", line)
	}
	if reply, err := server.Do("PING"); err == nil {
		t.Errorf("PING without a password: got %q, want an error", reply)
	}
	env := serviceEnv(t, c.Services["precept-2"], secrets)
	env["PRECEPT_STORE_URL"] = strings.Replace(env["PRECEPT_STORE_URL"], "redis:6379", server.Addr, 1)
	dir, token := t.TempDir(), readSecret(t, secrets, filepath.Base(readPrometheus(t).ScrapeConfigs[0].Authorization.CredentialsFile))
	p := harness.Launch(t, dir, envList(env)).WaitUntilReady(dir)
	checkEnv := maps.Clone(env)
	checkEnv["PRECEPT_DATA_DIR"] = dir
	check := exec.CommandContext(t.Context(), "precept", "ready", "--json") // the health check of the image
	check.Env = append(os.Environ(), envList(checkEnv)...)
	if out, err := check.Output(); err != nil || !strings.Contains(string(out), `"says": "ok"`) {
		t.Errorf("precept ready --json: got error %v, output %s, want \"says\": \"ok\"; log:\n%s", err, out, p.Log.String())
	}
	if code := statusForHost(t, p.AdminURL+"/metrics", "precept-2:8081", token); code != 200 {
		t.Errorf("/metrics with Prometheus's token: got status %d, want 200", code)
	}
	if code := statusForHost(t, p.AdminURL+"/api/export/sessions?format=transcripts", "precept-2:8081", token); code != 403 {
		t.Errorf("/api/export/sessions with Prometheus's token: got status %d, want 403", code)
	}
	if code := statusForHost(t, p.AdminURL+"/metrics", "elsewhere:8081", token); code != 403 {
		t.Errorf("/metrics with an unknown Host: got status %d, want 403", code)
	}
}
