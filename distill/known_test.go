package distill_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"precept/detect"
	"precept/lesson"
)

func signature(text string) string { return detect.Signature(text) }

// failed is a command that failed and one that then worked.
func failed(command, result, then string) []event {
	run := func(line, said string) event {
		args, _ := json.Marshal(map[string]string{"command": line})
		return call("bash", string(args), said)
	}
	return []event{user("Do it."), run(command, result), run(then, "done")}
}

// What commands say, and the lesson that comes of it: one whose trigger fires on that very output,
// and none where the words stand in something that was only read.
func TestCommands(t *testing.T) {
	for _, c := range []struct{ command, result, then, slug string }{
		{"git push", "fatal: The current branch feature/x has no upstream branch.\nTo push the current branch and set the remote as upstream, use\n\n    git push --set-upstream origin feature/x\n[exit code: 128]", "git push -u origin feature/x", "name-the-upstream-at-the-first-push"},
		{"git checkout v2", "error: Your local changes to the following files would be overwritten by checkout:\n\tsrc/app.ts\nPlease commit your changes or stash them before you switch branches.\nAborting\n[exit code: 1]", "git stash && git checkout v2", "commit-or-stash-before-switching-branches"},
		{"npm install react-table", "npm ERR! code ERESOLVE\nnpm ERR! ERESOLVE unable to resolve dependency tree\nnpm ERR! Found: react@18.2.0", "npm install react-table --legacy-peer-deps", "choose-a-version-that-fits-the-peer-dependencies"},
		{"npm test", "> web@1.0.0 test\n> vitest run\n\nsh: 1: vitest: not found\nnpm ERR! code 127", "npm ci && npm test", "install-the-packages-before-running-scripts"},
		{"kubectl logs web-1", "Error from server (NotFound): pods \"web-1\" not found\n[exit code: 1]", "kubectl logs web-1 -n prod", "find-the-namespace-of-an-object-first"},
		{"terraform plan", "╷\n│ Error: Inconsistent dependency lock file\n│ \n│ To make the initial dependency selections, run:\n│   terraform init\n╵", "terraform init && terraform plan", "run-terraform-init-first"},
		{"make lint", "make: *** No rule to make target 'lint'.  Stop.", "make check", "look-up-the-targets-of-the-makefile"},
		{"make", "Makefile:12: *** missing separator.  Stop.", "sed -i 's/^    /\\t/' Makefile && make", "indent-recipes-of-makefiles-with-tabs"},
		{"./gradlew build", "FAILURE: Build failed with an exception.\n\n* What went wrong:\nCould not resolve all files.\n   > Dependency requires at least JVM runtime version 11. This build uses a Java 8 JVM.\n\nBUILD FAILED in 1s", "JAVA_HOME=/j17 ./gradlew build", "point-java-home-at-the-jdk-of-the-project"},
		{"psql shop -c 'select createdAt from users'", "ERROR:  column \"createdat\" does not exist\nLINE 1: select createdAt from users", "psql shop -c 'select \"createdAt\" from users'", "look-up-tables-and-columns-before-querying"},
		{"gh pr create --title x", "must provide `--title` and `--body` (or `--fill`) when not running interactively\n\nUsage:  gh pr create [flags]\nexit status 1", "gh pr create --title x --body y", "give-gh-every-field-as-an-option"},
		{"cat NOTES.md", "Your local changes would be overwritten by checkout: then stash them.", "git status", ""},
		{"grep -rn upstream docs", "docs/git.md:4: fatal: The current branch x has no upstream branch.", "ls", ""},

		// What turns a check off is no advice, and neither is what has nothing to do with it.
		{"curl https://localhost:8443/x", "curl: (35) TLS connect error\n[exit code: 35]", "curl -k https://localhost:8443/x", ""},
		{"cargo build --locked", "error: failed to parse lock file, version not understood\n[exit code: 101]", "cargo build", ""},
		{"psql -d shop -f a.sql", "psql: error: some unknown thing about roles is not permitted\n[exit code: 2]", "psql -h localhost -d shop -f a.sql", ""},
		{"python3 load.py", "ValueError: could not convert string to float: '1,2'\n[exit code: 1]", "sed -i s/,// load.py", ""},
		{"node a.js", "ReferenceError: require is not defined in ES module scope, you can use import instead\n[exit code: 1]", "mv a.js a.cjs", ""},

		// What the error asks for, and a variable that was missing.
		{"cargo fmt --check", "error: 'cargo-fmt' is not installed for the toolchain 'stable'.\nTo install, run `rustup component add rustfmt`\n[exit code: 1]", "rustup component add rustfmt && cargo fmt --check", "run-rustup-component-add-before-cargo-fmt"},
		{"pytest a", "E   ImproperlyConfigured: Requested setting X, but settings are not configured.\n[exit code: 2]", "DJANGO_SETTINGS_MODULE=s.t pytest a", "set-django-settings-module-for-pytest"},
	} {
		b := newBench(t)
		b.session("one", failed(c.command, c.result, c.then)...)
		b.distil()
		want := []string(nil)
		if c.slug != "" {
			want = []string{c.slug}
		}
		equal(t, c.command, b.slugs(), want)
		if c.slug == "" || !slices.Equal(b.slugs(), want) {
			continue
		}
		l := b.lesson(c.slug).Clone()
		if l.Outcome == "failure" {
			t.Errorf("%s says what to do, and would stand among what failed before", c.slug)
		}
		l.State = lesson.Active
		if hits := lesson.NewBook([]*lesson.Lesson{l}).Match(&lesson.Query{Errors: []lesson.ErrorText{{Tool: "bash", Text: signature(c.result)}}, Tenant: "default", Now: b.now}); len(hits) != 1 {
			t.Errorf("%s: %v does not fire on\n%s", c.slug, l.Trigger.ErrorPatterns, c.result)
		}
	}
}

// A refused command is named with the option for which it was refused; a look is nothing that was
// accepted instead.
func TestRefusedCommand(t *testing.T) {
	const no = "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the new_string was NOT written to the file). STOP what you are doing and wait for the user to tell you how to proceed."
	b := newBench(t)
	b.session("one", user("Publish it."), call("Bash", `{"command":"git push --force origin main"}`, no), call("Bash", `{"command":"git status"}`, "clean"))
	b.distil()
	equal(t, "lessons", b.slugs(), []string{"ask-before-running-git-push-force"})
	l := b.lesson("ask-before-running-git-push-force")
	equal(t, "fires on", l.Trigger.Keywords, []string{"git push --force"})
	equal(t, "advice", l.Body, "\n## What to do (or avoid)\n\n- Say what you would do and why, and wait for a yes.\n")
}

// What a person corrects counts also where the agent only called tools; a value of an option that
// is a number belongs to the option; what an option was given is no word of a lesson.
func TestCorrectedWithoutAWord(t *testing.T) {
	run := func(line, said string) event {
		args, err := json.Marshal(map[string]string{"command": line})
		if err != nil {
			t.Fatal(err)
		}
		return call("bash", string(args), said)
	}
	for _, c := range []struct {
		events      []event
		slug, title string
	}{
		{
			[]event{user("Add httpx."), run("pip install httpx", "ok"), user("Don't use pip, we use uv here."), run("uv add httpx", "ok")},
			"use-uv-instead-of-pip", "Use `uv` instead of `pip` in this project.",
		},
		{
			[]event{user("Test it."), run("go test ./store", "ok (cached)"), user("No, that is cached. Always use go test -count=1 here."), run("go test -count=1 ./store", "ok")},
			"run-go-test-with-count-1", "Run `go test` with `-count=1` in this project.",
		},
	} {
		b := newBench(t)
		b.session("one", c.events...)
		b.distil()
		equal(t, "lessons", b.slugs(), []string{c.slug})
		if l := b.lesson(c.slug); l != nil {
			equal(t, "title", l.Title, c.title)
		}
	}
	b := newBench(t)
	b.session("one", user("Test the api."), run("mvn test -pl api", "[ERROR] Failed to execute goal on project api: Could not resolve dependencies for project\n[exit code: 1]"), run("mvn test -pl api -am", "ok\n[exit code: 0]"))
	b.distil()
	for _, slug := range b.slugs() {
		l := b.lesson(slug)
		if text := l.Title + l.Body + strings.Join(l.Trigger.ErrorPatterns, "\n"); strings.Contains(text, "api") {
			t.Errorf("%s holds a value of the session: %s", slug, text)
		}
	}
}
