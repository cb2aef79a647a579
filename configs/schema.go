package configs

import (
	"reflect"
	"slices"
	"strings"
	"time"
)

// KeyInfo describes one key.
type KeyInfo struct {
	Path         string // such as bandit.epsilon
	Flag         string // such as bandit-epsilon
	Env          string // such as PRECEPT_BANDIT_EPSILON
	Usage        string // comment in precept.yaml
	Default      string // as written in precept.yaml
	Bool         bool   // a flag without a value means true
	NeedsRestart bool
}

// field is a key with a value, unlike a section.
type field struct {
	path  string
	index []int
	tag   reflect.StructTag
	typ   reflect.Type
}

func isSection(t reflect.Type) bool { return t.Kind() == reflect.Struct }

// scalarFieldIndex returns the index of the field tagged "alone", or -1. A scalar in place of the section sets this
// field.
func scalarFieldIndex(t reflect.Type) int {
	if !isSection(t) {
		return -1
	}
	for i := range t.NumField() {
		if t.Field(i).Tag.Get("alone") != "" {
			return i
		}
	}
	return -1
}

func yamlName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
	return name
}

// fields returns the fields in t and its sections, in struct order.
func fields(t reflect.Type, prefix string, index []int) []field {
	var out []field
	for i := range t.NumField() {
		f := t.Field(i)
		path := join(prefix, yamlName(f))
		fieldIndex := append(append([]int(nil), index...), i)
		if isSection(f.Type) {
			out = append(out, fields(f.Type, path, fieldIndex)...)
			continue
		}
		out = append(out, field{path: path, index: fieldIndex, tag: f.Tag, typ: f.Type})
	}
	return out
}

func join(prefix, name string) string {
	if prefix == "" {
		return name
	}
	return prefix + "." + name
}

func leafFields() []field { return fields(reflect.TypeFor[Config](), "", nil) }

// FlagName returns the name of the flag for the key with the given path.
func FlagName(path string) string {
	return strings.NewReplacer(".", "-", "_", "-").Replace(path)
}

func envName(path string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(path, ".", "_"))
}

// KeyInfos returns a description of every key, in the same order as precept.yaml.
func KeyInfos() []KeyInfo {
	docs := readDocs()
	all := leafFields()
	out := make([]KeyInfo, len(all))
	for i, f := range all {
		out[i] = KeyInfo{
			Path:         f.path,
			Flag:         FlagName(f.path),
			Env:          envName(f.path),
			Usage:        docs[f.path].usage,
			Default:      docs[f.path].defaultText,
			Bool:         f.typ.Kind() == reflect.Bool,
			NeedsRestart: f.tag.Get("restart") != "",
		}
	}
	return out
}

// ApplyReload returns a running server's configuration after a reload. Keys that need a restart keep the values in
// running, and pending lists the changed ones. All other values come from reloaded.
func ApplyReload(running, reloaded *Config) (effective *Config, pending []string) {
	pending = differingKeys(running, reloaded, func(f field) bool {
		switch f.tag.Get("restart") {
		case "":
			return false
		case "on":
			return !reflect.ValueOf(running).Elem().FieldByIndex(f.index).Bool()
		default:
			return true
		}
	})
	config := *reloaded
	from, to := reflect.ValueOf(running).Elem(), reflect.ValueOf(&config).Elem()
	for _, f := range leafFields() {
		if slices.Contains(pending, f.path) {
			to.FieldByIndex(f.index).Set(from.FieldByIndex(f.index))
		}
	}
	return &config, pending
}

// ChangedKeys returns the keys with values other than the defaults.
func ChangedKeys(c *Config) []string {
	return differingKeys(Default(), c, func(field) bool { return true })
}

// differingKeys returns the keys that include accepts and that have different values in a and b.
func differingKeys(a, b *Config, include func(field) bool) []string {
	var out []string
	va, vb := reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem()
	for _, f := range leafFields() {
		x, y := va.FieldByIndex(f.index), vb.FieldByIndex(f.index)
		if x.Kind() == reflect.Slice && x.Len()+y.Len() == 0 { // a nil list equals an empty list
			continue
		}
		if include(f) && !reflect.DeepEqual(x.Interface(), y.Interface()) {
			out = append(out, f.path)
		}
	}
	return out
}

func isDuration(t reflect.Type) bool { return t == reflect.TypeFor[time.Duration]() }

// isSecret reports whether t is Secret or a list of secrets.
func isSecret(t reflect.Type) bool {
	if t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	return t == reflect.TypeFor[Secret]()
}
