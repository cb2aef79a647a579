package report

import (
	"encoding/json"
	"fmt"
)

// A row with too few picks hides the effect and the interval. In JSON, the effect is then null, but the bounds are -1
// and 1. Some clients read null as 0, and an interval from 0 to 0 would claim that there is exactly no effect.
const hiddenLo, hiddenHi = -1.0, 1.0

// MarshalJSON writes hidden bounds as -1 and 1.
func (r Row) MarshalJSON() ([]byte, error) {
	type plain Row
	r.Lo, r.Hi = hiddenIfNil(r.Lo, r.Hi)
	return json.Marshal(plain(r))
}

// MarshalJSON writes hidden bounds as -1 and 1.
func (g Global) MarshalJSON() ([]byte, error) {
	type plain Global
	g.Lo, g.Hi = hiddenIfNil(g.Lo, g.Hi)
	return json.Marshal(plain(g))
}

func hiddenIfNil(lo, hi *float64) (l, h *float64) {
	if lo == nil || hi == nil {
		return new(hiddenLo), new(hiddenHi)
	}
	return lo, hi
}

// UnmarshalJSON reads what MarshalJSON writes.
func (r *Row) UnmarshalJSON(b []byte) error {
	type plain Row
	if err := json.Unmarshal(b, (*plain)(r)); err != nil {
		return fmt.Errorf("read a report row: %w", err)
	}
	if r.Effect == nil {
		r.Lo, r.Hi = nil, nil
	}
	return nil
}

// UnmarshalJSON reads what MarshalJSON writes.
func (g *Global) UnmarshalJSON(b []byte) error {
	type plain Global
	if err := json.Unmarshal(b, (*plain)(g)); err != nil {
		return fmt.Errorf("read the report's row for all lessons: %w", err)
	}
	if g.Effect == nil {
		g.Lo, g.Hi = nil, nil
	}
	return nil
}
