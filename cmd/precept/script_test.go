package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain makes this test binary precept itself, when a script calls it by that name.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"precept": func() { os.Exit(run()) }})
}

// TestScripts runs the verbs as people do: testdata/script/*.txtar.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			// A shell that points its agents at some API must not change what the scripts see.
			e.Setenv("OPENAI_BASE_URL", "")
			e.Setenv("NO_COLOR", "1")
			return nil
		},
	})
}
