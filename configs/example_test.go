package configs_test

import (
	"fmt"

	"precept/configs"
)

// Values from flags override those from environment variables, which override those from the file.
func ExampleParse() {
	env := map[string]string{"PRECEPT_BANDIT_EPSILON": "0.3"}
	c, err := configs.Parse(configs.Sources{
		File:  []byte("upstream: http://127.0.0.1:8000/v1\nbandit:\n  epsilon: 0.1\n  control: 0.1\n"),
		Env:   func(name string) (string, bool) { v, ok := env[name]; return v, ok },
		Flags: map[string]string{"bandit.control": "0.2"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.Bandit.Epsilon, c.Bandit.Control)
	// Output: 0.3 0.2
}

// A fault names the line in the file, says what is wrong, and proposes a remedy.
func ExampleAsFaults() {
	_, err := configs.Parse(configs.Sources{File: []byte("upstream: http://127.0.0.1:8000/v1\nbandit:\n  epsilom: 0.1\n")})
	faults, _ := configs.AsFaults(err)
	for _, f := range faults {
		fmt.Println(f)
	}
	// Output: precept.yaml:3: bandit.epsilom is not a key; did you mean epsilon?
}
