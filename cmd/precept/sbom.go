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

// object is a part of a CycloneDX document.
type object map[string]any

// billOf tells what a Go binary is made of, as CycloneDX 1.5. It reads the list that the linker
// wrote into the binary, so it tells of what was linked, and of nothing else.
func billOf(path string) (object, error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return nil, err
	}
	binary, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return describeBinary(info, sha256.Sum256(binary)), nil
}

// describeBinary makes the same document of the same binary: its number is taken from the binary's
// digest.
func describeBinary(info *debug.BuildInfo, sum [sha256.Size]byte) object {
	id := sum
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80 // version 8: numbers of one's own making
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
	var on []any
	for _, c := range components {
		on = append(on, c["bom-ref"])
	}
	return object{
		"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
		"serialNumber": fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:16]),
		"metadata":     about, "components": components,
		"dependencies": []object{{"ref": app["bom-ref"], "dependsOn": on}},
	}
}

// component is a module as a component. Its own sum is one of Go's kind, over names and digests of
// its files, and so no hash of anything that could be downloaded: it is a property.
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
