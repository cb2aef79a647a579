package configs

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml"
)

// Setting is one configuration key, as shown to operators.
type Setting struct {
	Path         string `json:"key"`
	Value        string `json:"value"`   // as YAML; a secret is hidden
	Default      string `json:"default"` // default as YAML; a secret is hidden
	Changed      bool   `json:"changed"` // value differs from default
	NeedsRestart bool   `json:"restart"` // a change takes effect after a restart
	Usage        string `json:"usage"`
}

// Settings returns every key in the same order as precept.yaml, without secrets.
func Settings(c *Config) ([]Setting, error) {
	current, defaults := reflect.ValueOf(c).Elem(), reflect.ValueOf(Default()).Elem()
	infos := KeyInfos()
	var out []Setting
	for i, f := range leafFields() {
		s := Setting{Path: f.path, NeedsRestart: infos[i].NeedsRestart, Usage: infos[i].Usage}
		var err error
		if s.Value, err = formatValue(current.FieldByIndex(f.index)); err != nil {
			return nil, fmt.Errorf("show %s: %w", f.path, err)
		}
		if s.Default, err = formatValue(defaults.FieldByIndex(f.index)); err != nil {
			return nil, fmt.Errorf("show the default for %s: %w", f.path, err)
		}
		s.Changed = s.Value != s.Default
		out = append(out, s)
	}
	return out, nil
}

// formatValue returns a value as YAML. Secrets hide themselves (MarshalText).
func formatValue(v reflect.Value) (string, error) {
	b, err := yaml.Marshal(v.Interface())
	return strings.TrimSpace(string(b)), err
}
