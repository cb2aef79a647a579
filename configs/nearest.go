package configs

import (
	"maps"
	"slices"
	"strings"

	"precept/internal/spell"
)

// suggestion returns the end of a message about a misspelt key: the most similar key, or else all keys.
func suggestion(name string, keys map[string]int) string {
	if best := spell.Suggest(name, slices.Sorted(maps.Keys(keys))); best != "" {
		return "; did you mean " + best + "?"
	}
	return "; " + alternatives("key", keys)
}

// alternatives returns the end of a message that lists the valid names.
func alternatives[V any](noun string, names map[string]V) string {
	if len(names) == 1 {
		return "the only " + noun + " is " + slices.Sorted(maps.Keys(names))[0]
	}
	return "the " + noun + "s are " + strings.Join(slices.Sorted(maps.Keys(names)), ", ")
}

// renamedKey returns the new name for a key that was renamed in an earlier release.
func renamedKey(key string) string {
	if key == "limits.spool_bytes" {
		return "limits.outbox_bytes"
	}
	return ""
}

// reportMisspelt adds a fault for each PRECEPT_ variable with a name similar to a key, unless the configuration uses
// the variable, or Kubernetes sets it for a service named precept.
func (d *decoder) reportMisspelt(names []string, env func(string) (string, bool), used map[string]bool) {
	accepted := map[string]bool{}
	for _, name := range []string{"ADMIN_TOKEN", "CONFIG", "KEY", "RUN", "SESSION", "URL"} { // used by commands and agents
		accepted[name] = true
	}
	for _, f := range leafFields() {
		accepted[strings.TrimPrefix(envName(f.path), envPrefix)] = true
	}
	all := slices.Sorted(maps.Keys(accepted))
	accepted["AGENT"], accepted["TENANT"] = true, true // shell scripts use both in base URLs
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
			d.addFault(name, nil, "", "is not a variable that precept reads; did you mean "+envPrefix+near+"?")
			d.faults[len(d.faults)-1].unknown = true
		}
	}
}

// isServiceLink reports whether Kubernetes sets a variable with this name for a service.
func isServiceLink(name string) bool {
	return strings.HasSuffix("_"+name, "_SERVICE_HOST") || strings.Contains("_"+name, "_SERVICE_PORT") ||
		strings.HasSuffix("_"+name, "_PORT") || strings.Contains("_"+name, "_TCP") || strings.Contains("_"+name, "_UDP")
}

// nearestVariable returns the likely name for a misspelt variable, or "". All names are without the prefix PRECEPT_.
// The result is the name with the most similar letters, a name with more or fewer words at the end, or the only name
// with one more word at the start.
func nearestVariable(name string, names []string) string {
	upper := strings.TrimSuffix(strings.ToUpper(strings.ReplaceAll(name, "-", "_")), fileSuffix)
	if near := spell.Suggest(upper, names); near != "" {
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
