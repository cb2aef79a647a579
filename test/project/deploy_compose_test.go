package project

import (
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
	Secrets  map[string]struct{ Environment string }
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
	Command     string
	Environment map[string]string
	Volumes     []string
	Secrets     []string
	Ports       []string
	DependsOn   []string `yaml:"depends_on"`
}

// given returns the variables that the head of compose.yaml asks people to export.
func given() map[string]string {
	return map[string]string{"OPENAI_BASE_URL": "https://api.openai.com/v1", "REDIS_PASSWORD": "secret", "PRECEPT_ADMIN_TOKEN": "0123456789abcdef", "GRAFANA_PASSWORD": "other"}
}

// interpolate puts variables in, as Compose does.
func interpolate(t *testing.T, text string) string {
	t.Helper()
	return regexp.MustCompile(`\$\{(\w+)(?::\?[^}]*)?\}`).ReplaceAllStringFunc(text, func(form string) string {
		name := regexp.MustCompile(`\w+`).FindString(form)
		if given()[name] == "" {
			t.Errorf("compose.yaml needs %s, which its head does not name", name)
		}
		return given()[name]
	})
}

func readCompose(t *testing.T) (c composeFile) {
	t.Helper()
	text := deployed(t, "deploy/compose.yaml")
	for name := range given() {
		if !regexp.MustCompile(`(?m)^# .*export .*\b` + name + `=`).MatchString(text) {
			t.Errorf("the head of compose.yaml does not export %s", name)
		}
	}
	strictly(t, "deploy/compose.yaml", func([]byte) any { return &c })
	return c
}

// preceptEnv returns the environment of a service's precept: the variables of the image and of the service.
func preceptEnv(t *testing.T, s composeService) map[string]string {
	t.Helper()
	env := imageEnv(t)
	for name, value := range s.Environment {
		env[name] = interpolate(t, value)
	}
	return env
}

// The files, names and ports of each service exist, and agree with those of the others.
func TestComposeFilesNamesAndPortsAgree(t *testing.T) {
	t.Parallel()
	c := readCompose(t)
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
		env := preceptEnv(t, s)
		onlyKnown(t, "compose.yaml", env)
		e := effective(t, env, "serve")
		targets, upstreams = append(targets, name+":"+port(t, e.Admin.Listen)), append(upstreams, "server "+name+":"+port(t, e.Listen)+";")
		if e.Lessons != "redis://" || e.DataDir != "/data" || e.Log.Format != "json" || !slices.Contains(e.Admin.Hosts, name) {
			t.Errorf(`%s: got %+v, want e.Lessons = "redis://", e.DataDir = "/data", e.Log.Format = "json" and e.Admin.Hosts with %q`, name, e, name)
		}
		if grace, err := time.ParseDuration(s.StopGrace); err != nil || grace <= stopNeeds {
			t.Errorf("%s has %s to stop, it may take %s", name, s.StopGrace, stopNeeds)
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
			t.Errorf("nginx.conf has no %s", u)
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
		t.Errorf("Prometheus scrapes %v, there are %v", got, targets)
	}
}

// promtool checks Prometheus' configuration with the files where Compose puts them.
func TestComposePrometheusConfigIsValid(t *testing.T) {
	t.Parallel()
	tool := promtool(t)
	c, dir := readCompose(t), t.TempDir()
	config := ""
	for _, v := range c.Services["prometheus"].Volumes {
		from, at, _ := strings.Cut(strings.TrimSuffix(v, ":ro"), ":")
		if !strings.HasPrefix(at, "/etc/prometheus/") {
			continue
		}
		text := strings.ReplaceAll(deployed(t, filepath.Join("deploy", from)), "/etc/prometheus/", dir+"/")
		text = strings.ReplaceAll(text, "/run/secrets/"+c.Services["prometheus"].Secrets[0], filepath.Join(dir, "token"))
		at = filepath.Join(dir, filepath.Base(at))
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if filepath.Base(at) == "prometheus.yml" {
			config = at
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte("token"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), tool, "check", "config", config).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "1 rule files found") || !strings.Contains(string(out), "rules found") {
		t.Errorf("promtool: %v\n%s", err, out)
	}
}

// Grafana finds its data source and the dashboard where the provisioning says.
func TestComposeGrafanaFindsItsFiles(t *testing.T) {
	t.Parallel()
	c := readCompose(t)
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
		t.Errorf(`got %+v, want s.URL = "http://prometheus:9090", s.IsDefault = true and a non-empty c.Services["prometheus"].Image`, s)
	}
	if !slices.Contains(c.Services["grafana"].Volumes, "../configs/grafana:"+boards.Providers[0].Options.Path+":ro") {
		t.Errorf("%v holds no dashboard", boards.Providers[0].Options.Path)
	}
}

// A precept runs with the variables of compose.yaml on a Redis with its command line. Prometheus
// may use the name of the service as Host, and no other name.
func TestComposeSettingsRun(t *testing.T) {
	t.Parallel()
	c := readCompose(t)
	server := storetest.StartRedis(t, append(strings.Fields(interpolate(t, c.Services["redis"].Command))[1:], "--dir", t.TempDir())...)
	env := preceptEnv(t, c.Services["precept-2"])
	env["PRECEPT_STORE_URL"] = strings.Replace(env["PRECEPT_STORE_URL"], "redis:6379", server.Addr, 1)
	dir := t.TempDir()
	p := harness.Launch(t, dir, pairs(env)).Ready(dir)
	asked := maps.Clone(env)
	asked["PRECEPT_DATA_DIR"] = dir
	check := exec.CommandContext(t.Context(), "precept", "ready", "--json") // the image's health check
	check.Env = append(os.Environ(), pairs(asked)...)
	if out, err := check.Output(); err != nil || !strings.Contains(string(out), `"says": "ok"`) {
		t.Errorf("got error %v, out %s, Log.String() %s, want no error and string(out) with `\"says\": \"ok\"`", err, out, p.Log.String())
	}
	if code := statusAs(t, p.Admin+"/metrics", "precept-2:8081", given()["PRECEPT_ADMIN_TOKEN"]); code != 200 {
		t.Errorf("Prometheus gets %d", code)
	}
	if code := statusAs(t, p.Admin+"/metrics", "elsewhere:8081", given()["PRECEPT_ADMIN_TOKEN"]); code != 403 {
		t.Errorf("another name gets %d", code)
	}
}
