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

// composeFile is the used part of the Compose specification.
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

// upstream is the variable that the head of compose.yaml asks people to export.
const upstream = "https://api.openai.com/v1"

// interpolate puts variables in, as Compose does.
func interpolate(t *testing.T, text string) string {
	t.Helper()
	text = regexp.MustCompile(`(^|[^$])\$\{(\w+):\?[^}]*\}`).ReplaceAllStringFunc(text, func(form string) string {
		if !strings.Contains(form, "${OPENAI_BASE_URL:") {
			t.Errorf("compose.yaml needs %s, which its head does not name", form)
		}
		return upstream
	})
	return strings.ReplaceAll(text, "$$", "$")
}

// readCompose reads compose.yaml, and makes the secrets in a new directory as the head of the file says.
func readCompose(t *testing.T) (c composeFile, secrets string) {
	t.Helper()
	strictly(t, "deploy/compose.yaml", func([]byte) any { return &c })
	dir := t.TempDir()
	var script []string
	for line := range strings.Lines(deployed(t, "deploy/compose.yaml")) {
		if text, ok := strings.CutPrefix(line, "#   "); ok && !strings.HasPrefix(text, "docker") {
			script = append(script, text)
		}
	}
	sh := exec.CommandContext(t.Context(), "sh", "-ec", "mkdir deploy\n"+strings.Join(script, ""))
	sh.Dir = dir
	if out, err := sh.CombinedOutput(); err != nil {
		t.Fatalf("the commands in the head of compose.yaml: error %v, output %s, want no error", err, out)
	}
	for name, s := range c.Secrets {
		info, err := os.Stat(filepath.Join(dir, "deploy", filepath.FromSlash(s.File)))
		if err != nil || info.Mode().Perm() != 0o644 || info.Size() < 16 {
			t.Errorf("secret %s: error %v, want a file that the user of each container can read", name, err)
		}
	}
	secrets = filepath.Join(dir, "deploy", "secrets")
	if info, err := os.Stat(secrets); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory of the secrets: error %v, want the mode 0700", err)
	}
	return c, secrets
}

// secret returns the text of a secret.
func secret(t *testing.T, secrets, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(secrets, name))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

// preceptEnv returns the environment of a service's precept: the variables of the image and of the service.
func preceptEnv(t *testing.T, s composeService, secrets string) map[string]string {
	t.Helper()
	env := imageEnv(t)
	for name, value := range s.Environment {
		env[name] = strings.ReplaceAll(interpolate(t, value), "/run/secrets", secrets)
	}
	return env
}

// No service has more rights than it needs, and no secret is on a command line or in the environment.
func TestComposeServicesHaveFewRights(t *testing.T) {
	t.Parallel()
	c, _ := readCompose(t)
	for name, s := range c.Services {
		if !slices.Equal(s.CapDrop, []string{"ALL"}) || !slices.Contains(s.SecurityOpt, "no-new-privileges:true") {
			t.Errorf("%s: got cap_drop %v, security_opt %v, want ALL and no-new-privileges:true", name, s.CapDrop, s.SecurityOpt)
		}
		if !s.ReadOnly && name != "grafana" {
			t.Errorf("%s: the file system can be written", name)
		}
		text := strings.Join(s.Command, " ")
		for key, value := range s.Environment {
			text += " " + key + "=" + value
		}
		if strings.Contains(text, "PASSWORD:?") || strings.Contains(text, "TOKEN:?") {
			t.Errorf("%s: a secret is on the command line or in the environment: %s", name, text)
		}
		for _, secret := range s.Secrets {
			if _, ok := c.Secrets[secret]; !ok || s.Image != "prom/prometheus:v3.5.0" && !strings.Contains(text, "/run/secrets/"+secret) {
				t.Errorf("%s: the secret %s is unknown or not used", name, secret)
			}
		}
	}
	for _, file := range []string{".gitignore", ".dockerignore"} {
		if !strings.Contains(deployed(t, file), "deploy/secrets\n") && !strings.Contains(deployed(t, file), "deploy/secrets/\n") {
			t.Errorf("%s does not name deploy/secrets", file)
		}
	}
}

// The files, names and ports of each service exist, and agree with those of the others.
func TestComposeFilesNamesAndPortsAgree(t *testing.T) {
	t.Parallel()
	c, secrets := readCompose(t)
	var targets, upstreams []string
	for name, s := range c.Services {
		for _, other := range s.DependsOn {
			if _, ok := c.Services[other]; !ok {
				t.Errorf("%s depends on %s, which is not a service", name, other)
			}
		}
		for _, v := range s.Volumes {
			from, _, _ := strings.Cut(v, ":")
			if _, named := c.Volumes[from]; !named && !exists(filepath.Join(repo, "deploy", from)) {
				t.Errorf("%s mounts %s, which is not there", name, from)
			}
		}
		for _, p := range s.Ports {
			if !strings.HasPrefix(p, "127.0.0.1:") {
				t.Errorf("%s can be reached from outside: %s", name, p)
			}
		}
		if s.Image != "precept" {
			continue
		}
		env := preceptEnv(t, s, secrets)
		onlyKnown(t, "compose.yaml", env)
		e := effective(t, env, "serve")
		targets, upstreams = append(targets, name+":"+port(t, e.Admin.Listen)), append(upstreams, "server "+name+":"+port(t, e.Listen)+";")
		if e.Lessons != "redis://" || e.DataDir != "/data" || e.Log.Format != "json" || !slices.Contains(e.Admin.Hosts, name) {
			t.Errorf(`%s: the configuration is %+v, want the lessons in Redis, the data in /data, the log in JSON and the host %q`, name, e, name)
		}
		if grace, err := time.ParseDuration(s.StopGrace); err != nil || grace <= stopNeeds {
			t.Errorf("%s has %s to stop, want more than %s", name, s.StopGrace, stopNeeds)
		}
		if !s.ReadOnly || !exists(filepath.Join(repo, "deploy", s.Build, "Dockerfile")) {
			t.Errorf(`%s: got %+v, want ReadOnly = true and exists(filepath.Join(repo, "deploy", Build, "Dockerfile")) = true`, name, s)
		}
	}
	slices.Sort(targets)
	if len(targets) != 3 {
		t.Fatalf("got %v, want three entries in targets", targets)
	}
	nginx := deployed(t, "deploy/nginx.conf")
	for _, u := range upstreams {
		if !strings.Contains(nginx, u) {
			t.Errorf("nginx.conf does not contain %s", u)
		}
	}
	var p struct {
		ScrapeConfigs []struct {
			StaticConfigs []struct{ Targets []string } `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
	}
	if err := yaml.Unmarshal([]byte(deployed(t, "deploy/prometheus.yaml")), &p); err != nil {
		t.Fatal(err)
	}
	if got := p.ScrapeConfigs[0].StaticConfigs[0].Targets; !slices.Equal(got, targets) {
		t.Errorf("Prometheus scrapes %v, want %v", got, targets)
	}
}

// promtool checks Prometheus' configuration with the files where Compose puts them.
func TestComposePrometheusConfigIsValid(t *testing.T) {
	t.Parallel()
	tool := promtool(t)
	c, secrets := readCompose(t)
	config, dir := "", t.TempDir()
	for _, v := range c.Services["prometheus"].Volumes {
		from, at, _ := strings.Cut(strings.TrimSuffix(v, ":ro"), ":")
		if !strings.HasPrefix(at, "/etc/prometheus/") {
			continue
		}
		text := strings.ReplaceAll(deployed(t, filepath.Join("deploy", from)), "/etc/prometheus/", dir+"/")
		text = strings.ReplaceAll(text, "/run/secrets", secrets)
		at = filepath.Join(dir, filepath.Base(at))
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if filepath.Base(at) == "prometheus.yml" {
			config = at
		}
	}
	out, err := exec.CommandContext(t.Context(), tool, "check", "config", config).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "1 rule files found") || !strings.Contains(string(out), "rules found") {
		t.Errorf("promtool: got error %v, want 1 rule file found\n%s", err, out)
	}
}

// Grafana finds its data source and the dashboard where the provisioning says.
func TestComposeGrafanaFindsItsFiles(t *testing.T) {
	t.Parallel()
	c, _ := readCompose(t)
	var source struct {
		APIVersion  int `yaml:"apiVersion"`
		Datasources []struct {
			Name, UID, Type, Access, URL string
			IsDefault                    bool `yaml:"isDefault"`
		}
	}
	strictly(t, "deploy/grafana/datasources/precept.yaml", func([]byte) any { return &source })
	var boards struct {
		APIVersion int `yaml:"apiVersion"`
		Providers  []struct {
			Name, Type string
			Options    struct{ Path string }
		}
	}
	strictly(t, "deploy/grafana/dashboards/precept.yaml", func([]byte) any { return &boards })
	if s := source.Datasources[0]; s.URL != "http://prometheus:9090" || !s.IsDefault || c.Services["prometheus"].Image == "" {
		t.Errorf(`the data source is %+v, want the default http://prometheus:9090 and an image of Prometheus`, s)
	}
	if !slices.Contains(c.Services["grafana"].Volumes, "../configs/grafana:"+boards.Providers[0].Options.Path+":ro") {
		t.Errorf("Grafana's volumes have no directory %v", boards.Providers[0].Options.Path)
	}
}

// A precept runs with the variables of compose.yaml on a Redis with its command line. Prometheus
// may use the name of the service as Host, and no other name.
func TestComposeSettingsRun(t *testing.T) {
	t.Parallel()
	c, secrets := readCompose(t)
	script := strings.ReplaceAll(interpolate(t, c.Services["redis"].Command[2]), "/run/secrets", secrets)
	server := storetest.StartRedisScript(t, script)
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", server.PID()))
	if password := secret(t, secrets, "redis-password"); err == nil && (bytes.Contains(line, []byte(password)) || !bytes.Contains(line, []byte("redis-server"))) {
		t.Errorf("the command line of Redis is %q, want redis-server without a password", line)
	}
	if reply, err := server.Do("PING"); err == nil {
		t.Errorf("Redis answered %q without a password, want an error", reply)
	}
	env := preceptEnv(t, c.Services["precept-2"], secrets)
	env["PRECEPT_STORE_URL"] = strings.Replace(env["PRECEPT_STORE_URL"], "redis:6379", server.Addr, 1)
	dir, token := t.TempDir(), secret(t, secrets, "admin-token")
	p := harness.Launch(t, dir, pairs(env)).Ready(dir)
	asked := maps.Clone(env)
	asked["PRECEPT_DATA_DIR"] = dir
	check := exec.CommandContext(t.Context(), "precept", "ready", "--json") // the image's health check
	check.Env = append(os.Environ(), pairs(asked)...)
	if out, err := check.Output(); err != nil || !strings.Contains(string(out), `"says": "ok"`) {
		t.Errorf("got error %v, output %s, log %s, want no error and the output with `\"says\": \"ok\"`", err, out, p.Log.String())
	}
	if code := statusAs(t, p.Admin+"/metrics", "precept-2:8081", token); code != 200 {
		t.Errorf("/metrics for Prometheus: got status %d, want 200", code)
	}
	if code := statusAs(t, p.Admin+"/metrics", "elsewhere:8081", token); code != 403 {
		t.Errorf("/metrics under another host name: got status %d, want 403", code)
	}
}
