// Command sbom tells, as CycloneDX 1.5 JSON, what a Go binary is made of. It reads the list that
// the linker wrote into the binary, so it tells of what was linked, and of nothing else.
package main

import (
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
)

type bom struct {
	Format       string       `json:"bomFormat"`
	Spec         string       `json:"specVersion"`
	Serial       string       `json:"serialNumber"`
	Version      int          `json:"version"`
	Metadata     metadata     `json:"metadata"`
	Components   []component  `json:"components"`
	Dependencies []dependency `json:"dependencies"`
}

type metadata struct {
	Timestamp string    `json:"timestamp,omitempty"`
	Component component `json:"component"`
}

type component struct {
	Ref        string     `json:"bom-ref"`
	Type       string     `json:"type"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	Hashes     []hash     `json:"hashes,omitempty"`
	PURL       string     `json:"purl"`
	Properties []property `json:"properties,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type dependency struct {
	Ref string   `json:"ref"`
	On  []string `json:"dependsOn,omitempty"`
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: sbom BINARY")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(path string) error {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return err
	}
	binary, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	e := json.NewEncoder(os.Stdout)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(describe(info, sha256.Sum256(binary)))
}

// describe makes the same document of the same binary: its number is taken from the binary's
// digest.
func describe(info *debug.BuildInfo, sum [sha256.Size]byte) bom {
	id := sum
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80 // version 8: numbers of one's own making
	app := library(&debug.Module{Path: info.Main.Path, Version: cmp.Or(info.Main.Version, "(devel)")})
	app.Type = "application"
	app.Hashes = []hash{{Algorithm: "SHA-256", Content: fmt.Sprintf("%x", sum)}}
	b := bom{
		Format: "CycloneDX", Spec: "1.5", Version: 1,
		Serial:     fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:16]),
		Components: []component{library(&debug.Module{Path: "std", Version: strings.TrimPrefix(info.GoVersion, "go")})},
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.time":
			b.Metadata.Timestamp = s.Value
		case "GOOS", "GOARCH", "CGO_ENABLED", "vcs.revision":
			app.Properties = append(app.Properties, property{Name: "go:" + s.Key, Value: s.Value})
		}
	}
	b.Metadata.Component = app
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		b.Components = append(b.Components, library(m))
	}
	root := dependency{Ref: app.Ref}
	for i := range b.Components {
		root.On = append(root.On, b.Components[i].Ref)
	}
	b.Dependencies = []dependency{root}
	return b
}

// library is a module as a component. Its own sum is one of Go's kind, over names and digests of
// its files, and so no hash of anything that could be downloaded: it is a property.
func library(m *debug.Module) component {
	purl := "pkg:golang/" + m.Path
	if m.Version != "" {
		purl += "@" + strings.NewReplacer("+", "%2B", "(", "%28", ")", "%29").Replace(m.Version)
	}
	c := component{Ref: purl, Type: "library", Name: m.Path, Version: m.Version, PURL: purl}
	if m.Sum != "" {
		c.Properties = []property{{Name: "go:sum", Value: m.Sum}}
	}
	return c
}
