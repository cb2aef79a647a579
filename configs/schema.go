package configs

import (
	"reflect"
	"slices"
	"strings"
	"time"
)

// Name describes one key: path, flag, environment variable and purpose.
type Name struct {
	Path    string // bandit.epsilon
	Flag    string // bandit-epsilon
	Env     string // PRECEPT_BANDIT_EPSILON
	Usage   string // the comment above the key in precept.yaml
	Default string // as written in precept.yaml
	Bool    bool   // the flag alone means true
	Restart bool   // a change needs a restart of the server
}

// field is a leaf of Config: a key with a value.
type field struct {
	path  string
	index []int
	tag   reflect.StructTag
	typ   reflect.Type
}

// isSection reports whether a key of the type t has keys below it.
func isSection(t reflect.Type) bool { return t.Kind() == reflect.Struct }

// scalarField returns the index of the field of the section t that has the tag "alone"; -1 if no field has the tag. A
// scalar in place of the section sets this field.
func scalarField(t reflect.Type) int {
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

// yamlName returns the key of a struct field.
func yamlName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
	return name
}

// fields lists the leaves of t in the order of the struct.
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

// leafFields returns every key of Config.
func leafFields() []field { return fields(reflect.TypeFor[Config](), "", nil) }

// flagName returns the flag of a key: the path with dashes.
func flagName(path string) string {
	return strings.NewReplacer(".", "-", "_", "-").Replace(path)
}

// envName returns the environment variable of a key: the path in upper snake case, with envPrefix.
func envName(path string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(path, ".", "_"))
}

// Names lists every key, in the order of the file. Flags, help texts and documentation use the
// list.
func Names() []Name {
	docs := readDocs()
	all := leafFields()
	out := make([]Name, len(all))
	for i, f := range all {
		out[i] = Name{
			Path:    f.path,
			Flag:    flagName(f.path),
			Env:     envName(f.path),
			Usage:   docs[f.path].usage,
			Default: docs[f.path].text,
			Bool:    f.typ.Kind() == reflect.Bool,
			Restart: f.tag.Get("restart") != "",
		}
	}
	return out
}

// Follow returns the configuration that a running server can use: next, except that keys that need
// a restart keep the values of started. pending lists the keys whose new values need the restart.
func Follow(started, next *Config) (effective *Config, pending []string) {
	pending = differingKeys(started, next, func(f field) bool {
		switch f.tag.Get("restart") {
		case "":
			return false
		case "on":
			return !reflect.ValueOf(started).Elem().FieldByIndex(f.index).Bool()
		default:
			return true
		}
	})
	config := *next
	from, to := reflect.ValueOf(started).Elem(), reflect.ValueOf(&config).Elem()
	for _, f := range leafFields() {
		if slices.Contains(pending, f.path) {
			to.FieldByIndex(f.index).Set(from.FieldByIndex(f.index))
		}
	}
	return &config, pending
}

// Changed lists the keys with values other than the defaults.
func Changed(c *Config) []string {
	return differingKeys(Default(), c, func(field) bool { return true })
}

// differingKeys lists the keys for which include returns true and whose values differ in a and b.
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

// isDuration reports whether t is time.Duration, whose kind is that of a plain integer.
func isDuration(t reflect.Type) bool { return t == reflect.TypeFor[time.Duration]() }

// isSecret reports whether values of t are never shown.
func isSecret(t reflect.Type) bool {
	if t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	return t == reflect.TypeFor[Secret]()
}
