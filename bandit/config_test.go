package bandit

import (
	"math"
	"strings"
	"testing"
)

func TestValidate(t *testing.T) {
	good := Config{K: 3, Epsilon: 0.2, Control: 0.05}
	for name, c := range map[string]struct {
		change func(*Config)
		want   []string // what the error must name; none: no error
	}{
		"usual":             {func(*Config) {}, nil},
		"nothing withheld":  {func(c *Config) { c.Epsilon, c.Control = 0, 0 }, nil},
		"everything":        {func(c *Config) { c.Epsilon, c.Control = 1, 1 }, nil},
		"all":               {func(c *Config) { c.Objective = All }, nil},
		"epsilon below":     {func(c *Config) { c.Epsilon = -0.01 }, []string{"epsilon", "from 0 to 1"}},
		"epsilon percent":   {func(c *Config) { c.Epsilon = 20 }, []string{"epsilon", "20", "from 0 to 1"}},
		"epsilon NaN":       {func(c *Config) { c.Epsilon = math.NaN() }, []string{"epsilon", "NaN"}},
		"epsilon infinite":  {func(c *Config) { c.Epsilon = math.Inf(1) }, []string{"epsilon"}},
		"control NaN":       {func(c *Config) { c.Control = math.NaN() }, []string{"control"}},
		"control infinite":  {func(c *Config) { c.Control = math.Inf(-1) }, []string{"control"}},
		"no slots":          {func(c *Config) { c.K = -1 }, []string{"k is -1", "inject.k"}},
		"unknown objective": {func(c *Config) { c.Objective = "luck" }, []string{"luck", "uplift, raw, random or all"}},
		"price NaN":         {func(c *Config) { c.TokenCost = math.NaN() }, []string{"token_cost"}},
		"price below":       {func(c *Config) { c.TokenCost = -1 }, []string{"token_cost"}},
		"salt":              {func(c *Config) { c.Salt = "a\x00b" }, []string{"salt"}},
		"all at once":       {func(c *Config) { c.K, c.Epsilon, c.Control = -1, 2, 3 }, []string{"k is", "epsilon", "control"}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := good
			c.change(&cfg)
			err := cfg.Validate()
			if len(c.want) == 0 && err != nil {
				t.Fatal(err)
			}
			for _, w := range c.want {
				if err == nil || !strings.Contains(err.Error(), w) {
					t.Errorf("%v does not say %q", err, w)
				}
			}
		})
	}
}
