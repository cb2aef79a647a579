package project

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// readPromQueries returns the queries in the Prometheus rules and in the Grafana dashboard. The keys are rule and panel
// names.
func readPromQueries(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	var rules struct {
		Groups []struct {
			Rules []struct{ Alert, Record, Expr string }
		}
	}
	if err := yaml.Unmarshal(readConfig(t, "prometheus/precept.rules.yaml"), &rules); err != nil {
		t.Fatal(err)
	}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			out[r.Alert+r.Record] = r.Expr
		}
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(readConfig(t, "grafana/precept.json"), &dashboard); err != nil {
		t.Fatal(err)
	}
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			out[p.Title+": "+target.Expr] = target.Expr
		}
	}
	return out
}

func readConfig(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(repo, "configs", filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Prometheus does not report a misspelt metric as an error, so the test compares the metrics with precept's metrics.
func TestRulesAndDashboardQueryExistingMetrics(t *testing.T) {
	known := metricNames(t)
	all := readPromQueries(t)
	if len(all) < 25 {
		t.Fatalf("queries in the rules and the dashboard: got %d, want at least 25", len(all))
	}
	for source, expr := range all {
		for _, name := range metricPattern.FindAllString(expr, -1) {
			if !known[name] {
				t.Errorf("%s queries metric %s, which precept does not export", source, name)
			}
		}
	}
}

func TestPromtoolAcceptsRules(t *testing.T) {
	tool := findPromtool(t)
	for _, args := range [][]string{{"check", "rules", "precept.rules.yaml"}, {"check", "config", "--syntax-only", "prometheus.yaml"}, {"test", "rules", "precept.rules.test.yaml"}} {
		c := exec.CommandContext(t.Context(), tool, args...) //nolint:gosec // tool is promtool
		c.Dir = filepath.Join(repo, "configs", "prometheus")
		if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), "SUCCESS") {
			t.Errorf("promtool %v: got error %v, want no error and an output with SUCCESS:\n%s", args, err, out)
		}
	}
}

func findPromtool(t *testing.T) string {
	t.Helper()
	tool, err := exec.LookPath("promtool")
	if err != nil {
		tool = filepath.Join(repo, ".cache", "promtool", "usr", "bin", "promtool")
		if !pathExists(tool) {
			t.Skip("promtool is not installed; run make e2e-deps")
		}
	}
	if tool, err = filepath.Abs(tool); err != nil {
		t.Fatal(err)
	}
	return tool
}

func TestRuleTestsCoverEachAlert(t *testing.T) {
	var ruleTests struct {
		Tests []struct {
			Alerts []struct {
				Name     string `yaml:"alertname"`
				Expected []any  `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	if err := yaml.Unmarshal(readConfig(t, "prometheus/precept.rules.test.yaml"), &ruleTests); err != nil {
		t.Fatal(err)
	}
	fires, silent := map[string]bool{}, map[string]bool{}
	for _, test := range ruleTests.Tests {
		for _, a := range test.Alerts {
			fires[a.Name], silent[a.Name] = fires[a.Name] || len(a.Expected) > 0, silent[a.Name] || len(a.Expected) == 0
		}
	}
	for name := range readPromQueries(t) {
		if strings.HasPrefix(name, "Precept") && (!fires[name] || !silent[name]) {
			t.Errorf("alert %s: fires in a test = %t, is silent in a test = %t, want both true", name, fires[name], silent[name])
		}
	}
}
