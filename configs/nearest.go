package configs

import (
	"maps"
	"slices"
	"strings"

	"precept/internal/spell"
)

// nearest returns the known key that is closest to a misspelled key, or a list of all keys.
func nearest(name string, known map[string]int) string {
	if best := spell.Nearest(name, slices.Sorted(maps.Keys(known))); best != "" {
		return "; did you mean " + best + "?"
	}
	return "; " + listed(known)
}

// listed returns the sorted names as one text.
func listed[V any](known map[string]V) string {
	if len(known) == 1 {
		return "there is only " + slices.Sorted(maps.Keys(known))[0]
	}
	return "there are " + strings.Join(slices.Sorted(maps.Keys(known)), ", ")
}

// renamed returns the name that a key of an earlier release has now, "" where there is none.
func renamed(key string) string {
	if key == "limits.spool_bytes" {
		return "limits.outbox_bytes"
	}
	return ""
}

// misspelt reports variables that are not keys but look like a key. Variables that ${...} names,
// and those that Kubernetes makes for a service called precept, are not meant as keys.
func (d *decoder) misspelt(names []string, env func(string) (string, bool), used map[string]bool) {
	known := map[string]bool{}
	for _, name := range []string{"ADMIN_TOKEN", "CONFIG", "KEY", "RUN", "SESSION", "URL"} { // variables of commands and of agents, which are not settings
		known[name] = true
	}
	for _, f := range leafFields() {
		known[strings.TrimPrefix(envName(f.path), envPrefix)] = true
	}
	all := slices.Sorted(maps.Keys(known))
	known["AGENT"], known["TENANT"] = true, true // a shell may set them to make base URLs
	for _, name := range slices.Sorted(slices.Values(names)) {
		rest, ok := strings.CutPrefix(name, envPrefix)
		if !ok || known[rest] || used[name] || isServiceLink(rest) {
			continue
		}
		text, _ := env(name)
		if near := nearestVariable(rest, all); near != "" && text != "" {
			if strings.HasSuffix(rest, fileSuffix) {
				near += fileSuffix
			}
			d.source = "environment"
			d.fault(name, nil, "", "is not a key; did you mean "+envPrefix+near+"?")
			d.faults[len(d.faults)-1].unknown = true
		}
	}
}

// isServiceLink reports whether Kubernetes makes a variable of this name for a service.
func isServiceLink(name string) bool {
	return strings.HasSuffix("_"+name, "_SERVICE_HOST") || strings.Contains("_"+name, "_SERVICE_PORT") ||
		strings.HasSuffix("_"+name, "_PORT") || strings.Contains("_"+name, "_TCP") || strings.Contains("_"+name, "_UDP")
}

// nearestVariable returns the variable that a misspelt one most likely means, both without PRECEPT_:
// the nearest in letters, one without the last words, or the only one with a section before.
func nearestVariable(name string, known []string) string {
	upper := strings.TrimSuffix(strings.ToUpper(strings.ReplaceAll(name, "-", "_")), fileSuffix)
	if near := spell.Nearest(upper, known); near != "" {
		return near
	}
	var within []string
	for _, k := range known {
		if strings.HasPrefix(upper, k+"_") || strings.HasPrefix(k, upper+"_") {
			return k
		}
		if section, ok := strings.CutSuffix(k, "_"+upper); ok && !strings.Contains(section, "_") {
			within = append(within, k)
		}
	}
	if len(within) == 1 {
		return within[0]
	}
	return ""
}
