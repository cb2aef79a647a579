package project

import (
	"debug/buildinfo"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestReleaseTargetsExist(t *testing.T) {
	t.Parallel()
	known, err := exec.CommandContext(t.Context(), "go", "tool", "dist", "list").Output()
	if err != nil {
		t.Fatal(err)
	}
	script, err := filepath.Abs(filepath.Join(repo, "tools", "release.sh"))
	if err != nil {
		t.Fatal(err)
	}
	list, err := exec.CommandContext(t.Context(), "bash", script, "--list").Output()
	if err != nil || len(strings.Fields(string(list))) != 6 {
		t.Fatalf("release.sh --list: got error %v, output %s, want 6 targets", err, list)
	}
	for target := range strings.FieldsSeq(string(list)) {
		if !strings.Contains("\n"+string(known), "\n"+target+"\n") {
			t.Errorf("target %s is not in `go tool dist list`", target)
		}
	}
}

func TestReleaseScriptRefusesUncommittedChanges(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text, err := os.ReadFile(filepath.Join(repo, "tools", "release.sh"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "tools"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "tools", "release.sh"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	initialize := exec.CommandContext(t.Context(), "git", "init", "-q")
	initialize.Dir = dir
	if out, err := initialize.CombinedOutput(); err != nil {
		t.Fatalf("git init: %v\n%s", err, out)
	}
	release := exec.CommandContext(t.Context(), "bash", "tools/release.sh", "out")
	release.Dir = dir
	if out, err := release.CombinedOutput(); err == nil || !strings.Contains(string(out), "changes that are not committed") {
		t.Errorf("release.sh: got error %v, output %s, want an error about uncommitted changes", err, out)
	}
}

func TestBillOfMaterialsListsLinkedModules(t *testing.T) {
	t.Parallel()
	binary, err := exec.LookPath("precept")
	if err != nil {
		t.Fatal(err)
	}
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	bill := func() []byte {
		c := exec.CommandContext(t.Context(), "go", "run", "./sbom", binary)
		c.Dir = filepath.Join(repo, "tools")
		b, err := c.Output()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	text := bill()
	var b struct {
		BOMFormat, SpecVersion, SerialNumber string
		Metadata                             struct{ Component struct{ Name, PURL string } }
		Components                           []struct{ Name, Version, PURL string }
		Dependencies                         []struct{ DependsOn []string }
	}
	if err := json.Unmarshal(text, &b); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, c := range b.Components {
		if c.PURL != "pkg:golang/"+c.Name+"@"+strings.ReplaceAll(c.Version, "+", "%2B") || got[c.Name] != "" {
			t.Errorf("component %+v, want a component with PURL %q, and only one component with this name", c, "pkg:golang/"+c.Name+"@"+strings.ReplaceAll(c.Version, "+", "%2B"))
		}
		got[c.Name] = c.Version
	}
	for _, m := range info.Deps {
		if got[m.Path] != m.Version {
			t.Errorf("version of module %s: got %q, want %q, as in the binary", m.Path, got[m.Path], m.Version)
		}
	}
	if len(got) != len(info.Deps)+1 || len(got) < 20 || len(b.Dependencies) != 1 || len(b.Dependencies[0].DependsOn) != len(got) || b.Metadata.Component.Name != "precept" || b.SpecVersion != "1.5" {
		t.Errorf("bill of materials: got %d components for %d modules, dependencies %v, metadata %+v, version %s, want a component for each module and for the standard library, at least 20, all as dependencies of precept, and version 1.5",
			len(got), len(info.Deps), b.Dependencies, b.Metadata, b.SpecVersion)
	}
	if string(bill()) != string(text) {
		t.Error("two bills of materials for the same binary differ")
	}
}
