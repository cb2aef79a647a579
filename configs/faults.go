package configs

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Fault is one error in a configuration.
type Fault struct {
	Key     string `json:"key"`             // path such as bandit.epsilon; "" for the whole file
	Value   string `json:"value,omitempty"` // as written by the operator; never a secret
	Source  string `json:"source"`          // precept.yaml:12, --bandit-epsilon, PRECEPT_BANDIT_EPSILON, default
	Problem string `json:"problem"`         // what is wrong, and the remedy

	unknown bool // the key does not exist
}

// String returns the fault as one line.
func (f Fault) String() string {
	var b strings.Builder
	if f.Source != "" {
		b.WriteString(f.Source + ": ")
	}
	b.WriteString(f.Key)
	if f.Value != "" {
		fmt.Fprintf(&b, " = %q", f.Value)
	}
	if f.Key != "" {
		b.WriteString(" ")
	}
	b.WriteString(f.Problem)
	return b.String()
}

// Faults holds all faults in a configuration as one error.
type Faults []Fault

// Error lists the faults, a line each.
func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i, fault := range f {
		lines[i] = fault.String()
	}
	noun := "faults"
	if len(f) == 1 {
		noun = "fault"
	}
	return fmt.Sprintf(
		"%d %s in the configuration:\n  %s", len(f), noun, strings.Join(lines, "\n  "),
	)
}

// AsFaults returns the Faults in an error from Parse.
func AsFaults(err error) (Faults, bool) {
	var f Faults
	ok := errors.As(err, &f)
	return f, ok
}

// errOrNil returns the faults sorted by key, or nil if there are none.
func (f Faults) errOrNil() error {
	if len(f) == 0 {
		return nil
	}
	slices.SortStableFunc(f, func(a, b Fault) int { return strings.Compare(a.Key, b.Key) })
	return f
}
