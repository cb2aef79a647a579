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

// The release builds targets that Go knows, of a commit only. The test does not build the release.
func TestReleaseTargetsAreKnown(t *testing.T) {
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
		t.Fatalf("got error %v, list %s, want no error and 6 words", err, list)
	}
	for target := range strings.FieldsSeq(string(list)) {
		if !strings.Contains("\n"+string(known), "\n"+target+"\n") {
			t.Errorf("Go does not know the target %s, want a target of `go tool dist list`", target)
		}
	}
	dir := t.TempDir()
	text, err := os.ReadFile(script)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "tools"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "tools", "release.sh"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"git", "init", "-q"}, {"bash", "tools/release.sh", "out"}} {
		c := exec.CommandContext(t.Context(), args[0], args[1:]...)
		c.Dir = dir
		out, err := c.CombinedOutput()
		if refused := strings.Contains(string(out), "changes that are not committed"); refused != (args[0] == "bash") || refused == (err == nil) {
			t.Errorf("%v: got error %v, out %s, want refused = %v and refused other than %v", args, err, out, (args[0] == "bash"), (err == nil))
		}
	}
}

// The bill of materials of a binary holds the modules that were linked into it, each once.
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
	have := map[string]string{}
	for _, c := range b.Components {
		if c.PURL != "pkg:golang/"+c.Name+"@"+strings.ReplaceAll(c.Version, "+", "%2B") || have[c.Name] != "" {
			t.Errorf("got %+v, want PURL = %q and an empty have[Name]", c, "pkg:golang/"+c.Name+"@"+strings.ReplaceAll(c.Version, "+", "%2B"))
		}
		have[c.Name] = c.Version
	}
	for _, m := range info.Deps {
		if have[m.Path] != m.Version {
			t.Errorf("%s %s is in the binary, want the same version in the bill: %q", m.Path, m.Version, have[m.Path])
		}
	}
	if len(have) != len(info.Deps)+1 || len(have) < 20 || len(b.Dependencies) != 1 || len(b.Dependencies[0].DependsOn) != len(have) || b.Metadata.Component.Name != "precept" || b.SpecVersion != "1.5" {
		t.Errorf("got %d components of %d modules, want one each and the binary: %+v", len(have), len(info.Deps), b.Metadata)
	}
	if string(bill()) != string(text) {
		t.Error("two bills of one binary differ")
	}
}
