package configs

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"precept/internal/spell"
)

// otherNames has the names that other programs use for a key.
var otherNames = map[string]string{ //nolint:gochecknoglobals // a constant table
	"port": "listen", "host": "listen", "addr": "listen", "address": "listen", "bind": "listen", "listen_addr": "listen", "listen_address": "listen",
	"base_url": "url", "api_base": "url", "target": "upstream", "backend": "upstream", "provider": "upstream",
	"database": "store.url", "redis": "store.url",
}

// unknownKey returns what is wrong with a key that a section does not have, and the remedy.
func unknownKey(section, name string, keys map[string]int) string {
	if newName := renamedKey(join(section, name)); newName != "" {
		return "is renamed to " + newName + "; use the new name"
	}
	near := nearestKeys(section, name, slices.Sorted(maps.Keys(keys)))
	switch {
	case len(near) == 0 && strings.HasPrefix(section, "upstreams.") && strings.Contains(name, "key"):
		return "is not a key; precept forwards each agent's own key, and the section keys can replace a client's key"
	case len(near) == 0:
		return "is not a key; " + alternatives("key", keys)
	case len(near) > 1:
		return "is not a key here; did you mean " + strings.Join(near, " or ") + "?"
	}
	if sibling, ok := strings.CutPrefix(near[0], join(section, "")); ok && !strings.Contains(sibling, ".") {
		return "is not a key; did you mean " + sibling + "?"
	}
	return "is not a key here; write the key " + near[0] + " as " + nested(near[0], "...")
}

// nested returns a key and the value in YAML flow style, such as reward: {close_after: 10s}.
func nested(path, value string) string {
	parts := strings.Split(path, ".")
	text := parts[len(parts)-1] + ": " + value
	for _, section := range slices.Backward(parts[:len(parts)-1]) {
		text = section + ": {" + text + "}"
	}
	return text
}

// NearestKey returns the path of the key that a misspelt or incomplete name most likely means, such as
// reward.close_after for close-after. "" means that no key, or more than one, is likely.
func NearestKey(name string) string {
	if near := nearestKeys("", name, nil); len(near) == 1 {
		return near[0]
	}
	return ""
}

// nearestKeys returns the paths of the keys that a misspelt name in a section most likely means. siblings are the
// section's keys. The result is a key in the section with similar letters, a key under a name from another program, or
// up to three keys in other sections that end with the name.
func nearestKeys(section, name string, siblings []string) []string {
	name = flatName(name)
	byName := map[string]string{} // path by name with underscores
	isEntry := section != ""      // the section is an entry in a map or a list, such as upstreams.openai
	for _, f := range leafFields() {
		byName[flatName(f.path)] = f.path
		isEntry = isEntry && !strings.HasPrefix(f.path, section+".")
	}
	if slices.Contains(siblings, name+"s") {
		return []string{join(section, name+"s")}
	}
	words := strings.LastIndex(name, "_") + 1 // the bytes before the last word
	known := cmp.Or(otherNames[name], name)
	if other := otherNames[name[words:]]; known == name && other != "" {
		known = name[:words] + other
	}
	if isEntry {
		if near := spell.Suggest(known, siblings); near != "" {
			return []string{join(section, near)}
		}
		return nil
	}
	for _, candidate := range []string{join(section, known), known} {
		if path := byName[flatName(candidate)]; path != "" {
			return []string{path}
		}
	}
	if near := spell.Suggest(name, siblings); near != "" {
		return []string{join(section, near)}
	}
	var longer []string
	for key, path := range byName {
		if strings.HasSuffix(key, "_"+name) {
			longer = append(longer, path)
		}
	}
	slices.Sort(longer)
	if near := spell.Suggest(name, slices.Sorted(maps.Keys(byName))); near != "" && len(longer) == 0 {
		longer = []string{byName[near]}
	}
	if len(longer) > 3 {
		return nil
	}
	return longer
}

// flatName returns a key's path, or a misspelt name, in lower case and with underscores between the words.
func flatName(path string) string {
	return strings.NewReplacer(".", "_", "-", "_").Replace(strings.ToLower(path))
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
