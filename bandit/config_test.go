package bandit_test

import (
	"math"
	"strings"
	"testing"

	"precept/bandit"
)

func TestValidate(t *testing.T) {
	good := bandit.Config{K: 3, Epsilon: 0.2, Control: 0.05}
	for name, c := range map[string]struct {
		change func(*bandit.Config)
		want   []string // what the error must name; none: no error
	}{
		"usual":             {func(*bandit.Config) {}, nil},
		"nothing withheld":  {func(c *bandit.Config) { c.Epsilon, c.Control = 0, 0 }, nil},
		"everything":        {func(c *bandit.Config) { c.Epsilon, c.Control = 1, 1 }, nil},
		"all":               {func(c *bandit.Config) { c.Objective = bandit.All }, nil},
		"epsilon below":     {func(c *bandit.Config) { c.Epsilon = -0.01 }, []string{"epsilon", "from 0 to 1"}},
		"epsilon percent":   {func(c *bandit.Config) { c.Epsilon = 20 }, []string{"epsilon", "20", "from 0 to 1"}},
		"epsilon NaN":       {func(c *bandit.Config) { c.Epsilon = math.NaN() }, []string{"epsilon", "NaN"}},
		"epsilon infinite":  {func(c *bandit.Config) { c.Epsilon = math.Inf(1) }, []string{"epsilon"}},
		"control NaN":       {func(c *bandit.Config) { c.Control = math.NaN() }, []string{"control"}},
		"control infinite":  {func(c *bandit.Config) { c.Control = math.Inf(-1) }, []string{"control"}},
		"no slots":          {func(c *bandit.Config) { c.K = -1 }, []string{"k is -1", "inject.k"}},
		"unknown objective": {func(c *bandit.Config) { c.Objective = "luck" }, []string{"luck", "uplift, raw, random or all"}},
		"price NaN":         {func(c *bandit.Config) { c.TokenCost = math.NaN() }, []string{"token_cost"}},
		"price below":       {func(c *bandit.Config) { c.TokenCost = -1 }, []string{"token_cost"}},
		"salt":              {func(c *bandit.Config) { c.Salt = "a\x00b" }, []string{"salt"}},
		"all at once":       {func(c *bandit.Config) { c.K, c.Epsilon, c.Control = -1, 2, 3 }, []string{"k is", "epsilon", "control"}},
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
