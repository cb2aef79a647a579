package configs

import (
	"maps"
	"slices"
	"strings"

	"precept/internal/spell"
)

// nearest returns the end of an error message: the key that is closest to the misspelt name, or all keys.
func nearest(name string, keys map[string]int) string {
	if best := spell.Nearest(name, slices.Sorted(maps.Keys(keys))); best != "" {
		return "; did you mean " + best + "?"
	}
	return "; " + alternatives(keys)
}

// alternatives returns the sorted names as one text.
func alternatives[V any](names map[string]V) string {
	if len(names) == 1 {
		return "there is only " + slices.Sorted(maps.Keys(names))[0]
	}
	return "there are " + strings.Join(slices.Sorted(maps.Keys(names)), ", ")
}

// presentName returns the present name of a key that only an earlier release accepts, "" for any other key.
func presentName(key string) string {
	if key == "limits.spool_bytes" {
		return "limits.outbox_bytes"
	}
	return ""
}

// reportMisspelt adds a fault for each variable PRECEPT_... whose name is close to the name of a key. Variables
// in ${...}, and the variables that Kubernetes makes for a service named precept, get no fault.
func (d *decoder) reportMisspelt(names []string, env func(string) (string, bool), used map[string]bool) {
	accepted := map[string]bool{}
	for _, name := range []string{"ADMIN_TOKEN", "CONFIG", "KEY", "RUN", "SESSION", "URL"} { // variables of commands and of agents, which are not settings
		accepted[name] = true
	}
	for _, f := range leafFields() {
		accepted[strings.TrimPrefix(envName(f.path), envPrefix)] = true
	}
	all := slices.Sorted(maps.Keys(accepted))
	accepted["AGENT"], accepted["TENANT"] = true, true // a shell may set both variables to build base URLs
	for _, name := range slices.Sorted(slices.Values(names)) {
		rest, ok := strings.CutPrefix(name, envPrefix)
		if !ok || accepted[rest] || used[name] || isServiceLink(rest) {
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

// nearestVariable returns the most likely correct name of a misspelt variable, both without PRECEPT_: the
// name with the fewest different letters, a name with more or fewer words at the end, or the only name
// with one more section at the start. The result is "" if no name matches.
func nearestVariable(name string, names []string) string {
	upper := strings.TrimSuffix(strings.ToUpper(strings.ReplaceAll(name, "-", "_")), fileSuffix)
	if near := spell.Nearest(upper, names); near != "" {
		return near
	}
	var longer []string
	for _, k := range names {
		if strings.HasPrefix(upper, k+"_") || strings.HasPrefix(k, upper+"_") {
			return k
		}
		if section, ok := strings.CutSuffix(k, "_"+upper); ok && !strings.Contains(section, "_") {
			longer = append(longer, k)
		}
	}
	if len(longer) == 1 {
		return longer[0]
	}
	return ""
}
