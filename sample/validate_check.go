package sample

import (
	"encoding/json"
	"math/big"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// text checks that a member is a string; has is false when there is none to look at further.
func (c *checker) text(doc map[string]any, prefix, key string, required bool) (s string, has bool) {
	v, present := doc[key]
	if !present {
		if required {
			c.fault(prefix+key, "required", "is missing")
		}
		return "", false
	}
	s, has = v.(string)
	if !has {
		c.fault(prefix+key, "type", "must be a string")
	}
	return s, has
}

func (c *checker) object(doc map[string]any, key string, required bool) (o map[string]any, has bool) {
	v, present := doc[key]
	if !present {
		if required {
			c.fault(key, "required", "is missing")
		}
		return nil, false
	}
	o, has = v.(map[string]any)
	if !has {
		c.fault(key, "type", "must be an object")
	}
	return o, has
}

func (c *checker) enum(doc map[string]any, prefix, key, rule string, allowed ...string) {
	v, present := doc[key]
	if !present {
		return
	}
	s, ok := v.(string)
	if !ok || !slices.Contains(allowed, s) {
		c.fault(prefix+key, rule, "must be one of %s, is %v", strings.Join(allowed, ", "), v)
	}
}

func (c *checker) boolean(doc map[string]any, prefix, key string) {
	if v, present := doc[key]; present {
		if _, ok := v.(bool); !ok {
			c.fault(prefix+key, "type", "must be true or false")
		}
	}
}

// number checks lo <= v, and v <= hi unless hi is below lo.
func (c *checker) number(doc map[string]any, prefix, key string, lo, hi int64) {
	r, present := c.rational(doc, prefix, key)
	if !present {
		return
	}
	if r.Cmp(big.NewRat(lo, 1)) < 0 || (hi >= lo && r.Cmp(big.NewRat(hi, 1)) > 0) {
		c.fault(prefix+key, "minimum", "is out of range: %s", r.RatString())
	}
}

// count checks for a whole number that is not negative; 3.0 is whole, as JSON Schema has it.
func (c *checker) count(doc map[string]any, prefix, key string) {
	r, present := c.rational(doc, prefix, key)
	if present && (!r.IsInt() || r.Sign() < 0) {
		c.fault(prefix+key, "minimum", "must be a whole number, 0 or more")
	}
}

func (c *checker) rational(doc map[string]any, prefix, key string) (*big.Rat, bool) {
	const longest = 64 // 1e999999999 would be a number of a billion digits
	v, present := doc[key]
	if !present {
		return nil, false
	}
	n, ok := v.(json.Number)
	if !ok {
		c.fault(prefix+key, "type", "must be a number")
		return nil, false
	}
	if f, err := n.Float64(); err != nil || len(n) > longest || f > 1e18 || f < -1e18 {
		c.fault(prefix+key, "type", "is no number that can be used")
		return nil, false
	}
	r, ok := new(big.Rat).SetString(n.String())
	if !ok {
		c.fault(prefix+key, "type", "must be a number")
	}
	return r, ok
}

func (c *checker) uuid(path string, v any) {
	s, ok := v.(string)
	if !ok || len(s) != 36 || uuid.Validate(s) != nil {
		c.fault(path, "format", "must be a UUID, is %v", v)
	}
}

// need asks for a member of a section, if the section is there at all.
func (c *checker) need(doc map[string]any, section, key string) {
	if o, ok := doc[section].(map[string]any); ok && o[key] == nil {
		c.fault(section+"."+key, "required", "is missing")
	}
}

func (c *checker) needText(doc map[string]any, section, key string) {
	if o, ok := doc[section].(map[string]any); ok {
		if s, ok := c.text(o, section+".", key, true); ok && s == "" {
			c.fault(section+"."+key, "non-empty-string", "must not be empty")
		}
	}
}
