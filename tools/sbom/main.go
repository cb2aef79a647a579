// Command sbom prints a Go binary's bill of materials as CycloneDX 1.5 JSON. tools/release.sh runs it for each target.
package main

import (
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
)

// object is a JSON object in a CycloneDX document.
type object map[string]any

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

// run prints the bill for the binary named in args. The linker wrote the linked modules into the binary.
func run(args []string) error {
	if len(args) != 1 {
		return errors.New("usage: sbom BINARY")
	}
	info, err := buildinfo.ReadFile(args[0])
	if err != nil {
		return err
	}
	binary, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	e := json.NewEncoder(os.Stdout)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(describeBinary(info, sha256.Sum256(binary)))
}

// describeBinary returns a binary's document. The serial number comes from the binary's digest, so two documents for
// one binary are equal.
func describeBinary(info *debug.BuildInfo, sum [sha256.Size]byte) object {
	id := sum
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80 // UUID version 8: custom contents
	app := component(&debug.Module{Path: info.Main.Path, Version: cmp.Or(info.Main.Version, "(devel)")})
	app["type"] = "application"
	app["hashes"] = []object{{"alg": "SHA-256", "content": fmt.Sprintf("%x", sum)}}
	about := object{"component": app}
	properties := []object{}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.time":
			about["timestamp"] = s.Value
		case "GOOS", "GOARCH", "CGO_ENABLED", "vcs.revision":
			properties = append(properties, object{"name": "go:" + s.Key, "value": s.Value})
		}
	}
	app["properties"] = properties
	components := []object{component(&debug.Module{Path: "std", Version: strings.TrimPrefix(info.GoVersion, "go")})}
	for _, m := range info.Deps {
		components = append(components, component(cmp.Or(m.Replace, m)))
	}
	var references []any
	for _, c := range components {
		references = append(references, c["bom-ref"])
	}
	return object{
		"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
		"serialNumber": fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:16]),
		"metadata":     about, "components": components,
		"dependencies": []object{{"ref": app["bom-ref"], "dependsOn": references}},
	}
}

// component returns a module as a component. Go's h1: sum covers the module's file names and digests. It is no hash for
// a download, so it becomes a property and not an entry in hashes.
func component(m *debug.Module) object {
	purl := "pkg:golang/" + m.Path
	if m.Version != "" {
		purl += "@" + strings.NewReplacer("+", "%2B", "(", "%28", ")", "%29").Replace(m.Version)
	}
	c := object{"bom-ref": purl, "type": "library", "name": m.Path, "version": m.Version, "purl": purl}
	if m.Sum != "" {
		c["properties"] = []object{{"name": "go:sum", "value": m.Sum}}
	}
	return c
}
