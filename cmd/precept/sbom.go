package main

import (
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
)

// bom is a CycloneDX document; what follows are its parts.
type bom struct {
	Format       string          `json:"bomFormat"`
	Spec         string          `json:"specVersion"`
	Serial       string          `json:"serialNumber"`
	Version      int             `json:"version"`
	Metadata     bomMetadata     `json:"metadata"`
	Components   []bomComponent  `json:"components"`
	Dependencies []bomDependency `json:"dependencies"`
}

type bomMetadata struct {
	Timestamp string       `json:"timestamp,omitempty"`
	Component bomComponent `json:"component"`
}

type bomComponent struct {
	Ref        string        `json:"bom-ref"`
	Type       string        `json:"type"`
	Name       string        `json:"name"`
	Version    string        `json:"version"`
	Hashes     []bomHash     `json:"hashes,omitempty"`
	PURL       string        `json:"purl"`
	Properties []bomProperty `json:"properties,omitempty"`
}

type bomHash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type bomProperty struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type bomDependency struct {
	Ref string   `json:"ref"`
	On  []string `json:"dependsOn,omitempty"`
}

// billOf tells what a Go binary is made of, as CycloneDX 1.5. It reads the list that the linker
// wrote into the binary, so it tells of what was linked, and of nothing else.
func billOf(path string) (b bom, err error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return b, err
	}
	binary, err := os.ReadFile(path)
	if err != nil {
		return b, err
	}
	return describeBinary(info, sha256.Sum256(binary)), nil
}

// describeBinary makes the same document of the same binary: its number is taken from the binary's
// digest.
func describeBinary(info *debug.BuildInfo, sum [sha256.Size]byte) bom {
	id := sum
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80 // version 8: numbers of one's own making
	app := bomLibrary(&debug.Module{Path: info.Main.Path, Version: cmp.Or(
		info.Main.Version, "(devel)",
	)})
	app.Type = "application"
	app.Hashes = []bomHash{{Algorithm: "SHA-256", Content: fmt.Sprintf("%x", sum)}}
	b := bom{
		Format: "CycloneDX", Spec: "1.5", Version: 1,
		Serial: fmt.Sprintf(
			"urn:uuid:%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:16],
		),
		Components: []bomComponent{bomLibrary(&debug.Module{
			Path: "std", Version: strings.TrimPrefix(info.GoVersion, "go"),
		})},
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.time":
			b.Metadata.Timestamp = s.Value
		case "GOOS", "GOARCH", "CGO_ENABLED", "vcs.revision":
			app.Properties = append(app.Properties, bomProperty{
				Name: "go:" + s.Key, Value: s.Value,
			})
		}
	}
	b.Metadata.Component = app
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		b.Components = append(b.Components, bomLibrary(m))
	}
	root := bomDependency{Ref: app.Ref}
	for i := range b.Components {
		root.On = append(root.On, b.Components[i].Ref)
	}
	b.Dependencies = []bomDependency{root}
	return b
}

// bomLibrary is a module as a component. Its own sum is one of Go's kind, over names and digests of
// its files, and so no hash of anything that could be downloaded: it is a property.
func bomLibrary(m *debug.Module) bomComponent {
	purl := "pkg:golang/" + m.Path
	if m.Version != "" {
		purl += "@" + strings.NewReplacer("+", "%2B", "(", "%28", ")", "%29").Replace(m.Version)
	}
	c := bomComponent{Ref: purl, Type: "library", Name: m.Path, Version: m.Version, PURL: purl}
	if m.Sum != "" {
		c.Properties = []bomProperty{{Name: "go:sum", Value: m.Sum}}
	}
	return c
}
