package distill_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"precept/detect"
	"precept/inject/lesson"
)

func signature(text string) string { return detect.Signature(text) }

// failureAndFix returns two bash calls: the command, which fails with the result, and the fix, which succeeds.
func failureAndFix(command, result, fix string) []event {
	run := func(line, output string) event {
		args, _ := json.Marshal(map[string]string{"command": line})
		return call("bash", string(args), output)
	}
	return []event{user("Do it."), run(command, result), run(fix, "done")}
}

// In each case, the command fails with the result, and then the fix succeeds. The expected lesson is slug, or none if
// slug is empty.
func TestCommandOutputGivesAMatchingLesson(t *testing.T) {
	for _, tc := range []struct{ command, result, fix, slug string }{
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
		{"apt-get install -y jq", "E: dpkg was interrupted, you must manually run 'dpkg --configure -a' to correct the problem. \n[exit code: 100]", "dpkg --configure -a && apt-get install -y jq", "finish-dpkg-before-installing"},
		{"apt-get install -y jq", "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 812 (unattended-upgr)\nE: Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend), is another process using it?", "apt-get -o DPkg::Lock::Timeout=120 install -y jq", "wait-for-the-other-apt"},
		{"kubectl apply -f job.yaml", "The Job \"migrate\" is invalid: spec.template: Invalid value: core.PodTemplateSpec{}: field is immutable\n[exit code: 1]", "kubectl delete job migrate && kubectl apply -f job.yaml", "recreate-objects-whose-fields-are-immutable"},
		{"npx eslint src", "\nOops! Something went wrong! :(\n\nESLint: 9.14.0\n\nESLint couldn't find an eslint.config.(js|mjs|cjs) file.\n\nFrom ESLint v9.0.0, the default configuration file is now eslint.config.js.", "npx eslint@8 src", "give-eslint-a-flat-config"},
		{"npx jest", " FAIL  src/a.test.js\n  ● Test suite failed to run\n\n    Jest encountered an unexpected token\n\n    SyntaxError: Cannot use import statement outside a module", "NODE_OPTIONS=--experimental-vm-modules npx jest", "say-which-module-system-a-file-has"},
		{"npm run build", "<--- Last few GCs --->\n\nFATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory\nAborted (core dumped)\n[exit code: 134]", "NODE_OPTIONS=--max-old-space-size=4096 npm run build", "give-node-more-memory"},
		{"cmake --build build", "CMake Error: The current CMakeCache.txt directory /src/build/CMakeCache.txt is different than the directory /old/build where CMakeCache.txt was created.", "cmake --fresh -B build && cmake --build build", "build-in-a-fresh-directory-with-cmake"},
		{"git fetch --tags", "From origin\n ! [rejected]        v1.2 -> v1.2  (would clobber existing tag)\n[exit code: 1]", "git fetch --tags --force", "decide-whether-moved-tags-may-be-replaced"},
		{"git commit -m x", "black....................................................................Failed\n- hook id: black\n- files were modified by this hook\n\nreformatted a.py\n[exit code: 1]", "git add -u && git commit -m x", "stage-what-a-hook-changed"},
		{"git commit -m x", "⧗   input: x\n✖   subject may not be empty [subject-empty]\n\nhusky - commit-msg script failed (code 1)", "git commit -m 'fix: x'", "mend-what-a-commit-hook-reports"},
		{"docker build -t app api", "COPY failed: forbidden path outside the build context: ../shared ()", "docker build -t app -f api/Dockerfile .", "copy-only-from-the-build-context"},
		{"docker build -t app .", "ERROR: failed to solve: failed to compute cache key: failed to calculate checksum of ref moby::x: \"/requirements.txt\": not found", "docker build -t app api", "copy-only-from-the-build-context"},
		{"npm install", "error This project is configured to use pnpm\n[exit code: 1]", "pnpm install", "use-the-package-manager-that-the-project-names"},
		{"./deploy.sh", "bash: ./deploy.sh: /bin/bash^M: bad interpreter: No such file or directory", "sed -i 's/\\r$//' deploy.sh && ./deploy.sh", "give-scripts-unix-line-ends"},
		{"./bin/tool", "bash: ./bin/tool: cannot execute binary file: Exec format error", "uname -m", "run-programs-that-are-built-for-the-machine"},
		{"rm logs/*.gz", "bash: /bin/rm: Argument list too long", "find logs -name '*.gz' -delete", "pass-long-lists-through-xargs"},
		{"npm start", "Error: ENOSPC: System limit for number of file watchers reached, watch '/app'\n[exit code: 1]", "CHOKIDAR_USEPOLLING=1 npm start", "raise-the-number-of-file-watchers"},
		{"pytest", "ERROR collecting b/test_api.py\nimport file mismatch:\nimported module 'test_api' has this __file__ attribute:\n  /a/test_api.py\n=== 1 error in 0.10s ===", "touch a/__init__.py b/__init__.py && pytest", "keep-the-names-of-test-files-apart"},
		{"go build ./...", "# runtime/cgo\ncgo: C compiler \"gcc\" not found: exec: \"gcc\": executable file not found in $PATH", "CGO_ENABLED=0 go build ./...", "install-a-c-compiler-or-turn-cgo-off"},
		{"git remote add origin x", "error: remote origin already exists.", "git remote set-url origin x", "change-a-remote-that-exists-already"},
		{"git checkout -b fix", "fatal: a branch named 'fix' already exists", "git switch fix", "switch-to-a-branch-that-exists-already"},
		{"git pull", "fatal: refusing to merge unrelated histories", "git remote -v", "ask-before-joining-unrelated-histories"},
		{"git rebase main", "error: cannot rebase: You have unstaged changes.\nerror: Please commit or stash them.", "git stash && git rebase main", "commit-or-stash-before-switching-branches"},
		// These commands only print a file with a failure message.
		{"cat NOTES.md", "Your local changes would be overwritten by checkout: then stash them.", "git status", ""},
		{"grep -rn upstream docs", "docs/git.md:4: fatal: The current branch x has no upstream branch.", "ls", ""},

		// In these cases, no lesson turns off a check or advises an unrelated command.
		{"curl https://localhost:8443/x", "curl: (35) TLS connect error\n[exit code: 35]", "curl -k https://localhost:8443/x", ""},
		{"cargo build --locked", "error: failed to parse lock file, version not understood\n[exit code: 101]", "cargo build", ""},
		{"psql -d shop -f a.sql", "psql: error: some unknown thing about roles is not permitted\n[exit code: 2]", "psql -h localhost -d shop -f a.sql", ""},
		{"python3 load.py", "ValueError: could not convert string to float: '1,2'\n[exit code: 1]", "sed -i s/,// load.py", ""},
		{"node a.js", "ReferenceError: require is not defined in ES module scope, you can use import instead\n[exit code: 1]", "mv a.js a.cjs", ""},

		// In these cases, the error names the missing command or variable.
		{"cargo fmt --check", "error: 'cargo-fmt' is not installed for the toolchain 'stable'.\nTo install, run `rustup component add rustfmt`\n[exit code: 1]", "rustup component add rustfmt && cargo fmt --check", "run-rustup-component-add-before-cargo-fmt"},
		{"pytest a", "E   ImproperlyConfigured: Requested setting X, but settings are not configured.\n[exit code: 2]", "DJANGO_SETTINGS_MODULE=s.t pytest a", "set-django-settings-module-for-pytest"},
	} {
		f := newFixture(t)
		f.addSession("one", failureAndFix(tc.command, tc.result, tc.fix)...)
		f.runDistiller()
		want := []string(nil)
		if tc.slug != "" {
			want = []string{tc.slug}
		}
		checkEqual(t, tc.command, f.slugs(), want)
		if tc.slug == "" || !slices.Equal(f.slugs(), want) {
			continue
		}
		l := f.lessonBySlug(tc.slug).Clone()
		if l.Outcome == "failure" {
			t.Errorf("lesson %s: outcome = failure", tc.slug)
		}
		l.State = lesson.Active
		if hits := lesson.NewBook([]*lesson.Lesson{l}).Match(&lesson.Query{Errors: []lesson.ErrorText{{Tool: "bash", Text: signature(tc.result)}}, Tenant: "default", Now: f.now}); len(hits) != 1 {
			t.Errorf("%s: error patterns %v do not match\n%s", tc.slug, l.Trigger.ErrorPatterns, tc.result)
		}
	}
}

// The lesson names the command that the user rejected, with the option. It does not name the next command, git status,
// because git status only reads.
func TestLessonNamesRejectedCommandWithOption(t *testing.T) {
	const rejection = "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the new_string was NOT written to the file). STOP what you are doing and wait for the user to tell you how to proceed."
	f := newFixture(t)
	f.addSession("one", user("Publish it."), call("Bash", `{"command":"git push --force origin main"}`, rejection), call("Bash", `{"command":"git status"}`, "clean"))
	f.runDistiller()
	checkEqual(t, "lessons", f.slugs(), []string{"ask-before-running-git-push-force"})
	l := f.lessonBySlug("ask-before-running-git-push-force")
	checkEqual(t, "keywords", l.Trigger.Keywords, []string{"git push --force"})
	checkEqual(t, "advice", l.Advice, "- Tell the user what you want to do and why, and wait for approval. In earlier sessions, users rejected this command when the agent did not ask first.")
	checkEqual(t, "body", l.Body, "\n# "+l.Title+"\n\n## When this applies\n\n"+l.Trigger.Description+"\n\n## What to do (or avoid)\n\n"+l.Advice+"\n")
}

// In these sessions, the agent writes no text, so the user's correction can only refer to the preceding command. The
// lesson contains the value of an option only if the value is a number.
func TestCorrectedToolCallGivesLesson(t *testing.T) {
	run := func(line, output string) event {
		args, err := json.Marshal(map[string]string{"command": line})
		if err != nil {
			t.Fatal(err)
		}
		return call("bash", string(args), output)
	}
	for _, tc := range []struct {
		events      []event
		slug, title string
	}{
		{
			[]event{user("Add httpx."), run("pip install httpx", "ok"), user("Don't use pip, we use uv here."), run("uv add httpx", "ok")},
			"use-uv-instead-of-pip", "Use `uv` instead of `pip` in this project.",
		},
		{
			[]event{user("Add zod."), run("npm install zod", "ok"), user("We use pnpm here, not npm."), run("pnpm add zod", "ok")},
			"use-pnpm-instead-of-npm", "Use `pnpm` instead of `npm` in this project.",
		},
		{
			[]event{user("Test it."), run("go test ./...", "ok"), user("please use make test, it sets up the database"), run("make test", "ok")},
			"use-make-test-instead-of-go-test", "Use `make test` instead of `go test` in this project.",
		},
		{
			[]event{user("Test it."), run("go test ./...", "ok"), user("Fine. Now use docker to run it."), run("docker run rows", "ok")},
			"", "",
		},
		{
			[]event{user("Test it."), run("npm test", "ok"), user("Thanks. Now compare with what pnpm says about npm's lock file."), run("pnpm audit", "ok")},
			"", "",
		},
		{
			[]event{user("Test it."), run("go test ./store", "ok (cached)"), user("No, that is cached. Always use go test -count=1 here."), run("go test -count=1 ./store", "ok")},
			"run-go-test-with-count-1", "Run `go test` with `-count=1` in this project.",
		},
	} {
		f := newFixture(t)
		f.addSession("one", tc.events...)
		f.runDistiller()
		if tc.slug == "" {
			checkEqual(t, "lessons", f.slugs(), []string(nil))
			continue
		}
		checkEqual(t, "lessons", f.slugs(), []string{tc.slug})
		if l := f.lessonBySlug(tc.slug); l != nil {
			checkEqual(t, "title", l.Title, tc.title)
		}
	}
	f := newFixture(t)
	f.addSession("one", user("Test the api."), run("mvn test -pl api", "[ERROR] Failed to execute goal on project api: Could not resolve dependencies for project\n[exit code: 1]"), run("mvn test -pl api -am", "ok\n[exit code: 0]"))
	f.runDistiller()
	for _, slug := range f.slugs() {
		l := f.lessonBySlug(slug)
		if text := l.Title + l.Body + strings.Join(l.Trigger.ErrorPatterns, "\n"); strings.Contains(text, "api") {
			t.Errorf("lesson %s contains the option's value \"api\" from the session: %s", slug, text)
		}
	}
}

// The advice of a lesson must not contain one of its triggers. Otherwise a session in which the agent repeats the
// advice would match the lesson again.
func TestKnownFailureAdviceMatchesNoTrigger(t *testing.T) {
	var known []struct {
		Slug, Title string
		Advice      []string
		Fires       []string `json:"fires_on"`
	}
	data, err := os.ReadFile("known.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &known); err != nil {
		t.Fatal(err)
	}
	titles := map[string]string{}
	for _, k := range known {
		advice := "- " + strings.Join(k.Advice, "\n- ")
		if first, ok := titles[k.Slug]; ok && first != k.Title {
			t.Errorf("%s has two titles: %q and %q", k.Slug, first, k.Title)
		}
		titles[k.Slug] = k.Title
		if len(advice) > lesson.MaxAdvice {
			t.Errorf("advice in %s has %d bytes, want at most %d", k.Slug, len(advice), lesson.MaxAdvice)
		}
		for _, phrase := range k.Fires {
			if strings.Contains(strings.ToLower(advice), strings.ToLower(phrase)) {
				t.Errorf("advice in %s contains the trigger %q", k.Slug, phrase)
			}
		}
	}
}
