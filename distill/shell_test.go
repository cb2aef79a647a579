//go:build !race

package distill_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"precept/inject/lesson"
)

// argvCall returns a call to a tool that takes the command as a list of arguments.
func argvCall(output string, code int, words ...string) event {
	args, _ := json.Marshal(map[string]any{"command": words})
	return call("exec_command", string(args), fmt.Sprintf("%s\n\nExit code: %d", output, code))
}

// A lesson names only the main command of a shell line, without wrappers, redirections and changes of the directory.
func TestLessonNamesMainCommandInLine(t *testing.T) {
	checkLessons(t, []lessonCase{
		{"a further option", "run-cargo-build-with-offline", []event{bashCall("cargo build", "error: network access failed for the registry index", 101), bashCall("cargo build --offline", "ok", 0)}},
		{"a removed option", "leave-porcelain-out-of-git-fetch", []event{bashCall("git fetch --porcelain", "error: this option is not supported by this version", 129), bashCall("git fetch", "ok", 0)}},
		{"a different option", "use-glob-instead-of-glob-all-with-fd", []event{bashCall("fd --glob-all rows", "error: unexpected argument '--glob-all' found", 2), bashCall("fd --glob rows", "ok", 0)}},
		{"a different option that no error names", "", []event{bashCall("rg --hidden rows", "error: the search was ended by the operator", 2), bashCall("rg --text rows", "ok", 0)}},
		{"a folder change before the command", "run-go-test-with-race", []event{bashCall("cd W77812 && go test ./...", "error: the race detector must be enabled for this package", 1), bashCall("cd W77812 && go test -race ./...", "ok", 0)}},
		{"sudo as a different user", "run-docker-build-with-pull", []event{bashCall("sudo -u ada docker build .", "error: the base image is outdated, pull it first", 1), bashCall("sudo -u ada docker build --pull .", "ok", 0)}},
		{"an added variable", "set-cgo-enabled-for-go-build", []event{bashCall("go build ./...", "error: the compiler for this package was not found", 1), bashCall("CGO_ENABLED=0 go build ./...", "ok", 0)}},
		{"a private variable", "", []event{bashCall("helm lint", "error: the chart version is not a valid version", 1), bashCall("W77812_TOKEN=1 helm lint", "ok", 0)}},
		{"a runner before the command", "use-poetry-run-mypy-instead-of-mypy", []event{bashCall("mypy .", "error: no module with that name was found in this environment", 1), bashCall("poetry run mypy .", "ok", 0)}},
		{"arguments as a list", "run-npm-view-with-prefer-offline", []event{
			argvCall("error: the registry cannot be reached from this network", 1, "npm", "view"), argvCall("ok", 0, "npm", "view", "--prefer-offline"),
		}},
		{"a shell in an argument list", "use-tsx-instead-of-ts-node", []event{
			argvCall("error: cannot use import statement outside of a module", 1, "bash", "-lc", "ts-node W77812.ts"), argvCall("ok", 0, "bash", "-lc", "tsx W77812.ts"),
		}},
		{"quotes and a pipe", "run-gh-pr-with-json", []event{
			bashCall(`gh pr "view" 12 | head -n 3`, "error: the output is not machine readable without a format option", 1), bashCall(`gh pr 'view' 12 --json | head -n 3`, "ok", 0),
		}},
		{"a further option with a session value", "", []event{bashCall("kubectl apply", "error: the namespace is missing in this request", 1), bashCall("kubectl apply -n W77812", "ok", 0)}},
		{"a script option", "", []event{bashCall("python3 W77812.py", "error: the output format is missing in this request", 1), bashCall("python3 W77812.py --json", "ok", 0)}},
		{"a private program", "", []event{bashCall("w77812-deploy", "error: the region is missing in this request", 1), bashCall("w77812-deploy --europe", "ok", 0)}},
		{"two options at once", "", []event{bashCall("terraform plan", "error: the state is locked by another process", 1), bashCall("terraform plan --refresh --compact", "ok", 0)}},
		{"a here-document", "", []event{bashCall("psql <<EOF\nselect 1\nEOF", "error: the connection needs a database name", 1), bashCall("psql <<EOF\nselect 2\nEOF", "ok", 0)}},
	})
}

// A wrapper (time, nohup or sudo), a redirection, or the program that runs an installer does not change which lesson
// there is.
func TestWrappersDoNotChangeTheLesson(t *testing.T) {
	const layout = ": the layout engine is missing, nothing was written"
	notFound := func(object string) string { return "error: the " + object + " was not found for this command" }
	checkLessons(t, []lessonCase{
		{"with time", "run-dotnet-build-with-offline", []event{bashCall("time dotnet build", notFound("registry index"), 101), bashCall("time dotnet build --offline", "ok", 0)}},
		{"with nohup", "run-yarn-build-with-offline", []event{bashCall("nohup yarn build", notFound("base image"), 101), bashCall("yarn build --offline", "ok", 0)}},
		{"with sudo as a different group", "run-docker-build-with-offline", []event{bashCall("sudo -g W77812 docker build", notFound("chart version"), 101), bashCall("docker build --offline", "ok", 0)}},
		{"with redirected output", "run-flutter-build-with-offline", []event{bashCall("flutter build > W77812.log 2>&1", notFound("compiler"), 101), bashCall("flutter build --offline", "ok", 0)}},
		{"with both outputs redirected", "run-mix-compile-with-offline", []event{bashCall("mix compile >& W77812.log", notFound("manifest"), 101), bashCall("mix compile --offline", "ok", 0)}},
		{"only the output redirected", "", []event{bashCall("bundle exec", notFound("network"), 101), bashCall("bundle exec 1> W77812.log", "ok", 0)}},
		{"an escaped space", "run-composer-update-with-offline", []event{bashCall(`cd W77812\ x; composer update`, notFound("namespace"), 101), bashCall(`cd "W77812 x" && composer update --offline`, "ok", 0)}},
		{"a package installed by python", "install-with-python3-m-pip-install-for-tox", []event{bashCall("tox", "tox"+layout, 2), bashCall("python3 -m pip install W77812", "ok", 0), bashCall("tox", "ok", 0)}},
		{"python that installs nothing", "", []event{bashCall("nox", "nox"+layout, 2), bashCall("python3 -m venv install", "ok", 0), bashCall("nox", "ok", 0)}},
		{"a package installed by uv", "install-with-uv-pip-for-pytest", []event{bashCall("pytest", "pytest"+layout, 2), bashCall("uv pip install W77812", "ok", 0), bashCall("pytest", "ok", 0)}},
		{"uv that installs nothing", "", []event{bashCall("mypy", "mypy"+layout, 2), bashCall("uv tree", "ok", 0), bashCall("mypy", "ok", 0)}},
		{"a known runner", "use-pnpm-tsc-instead-of-tsc", []event{bashCall("tsc", notFound("database"), 1), bashCall("pnpm tsc", "ok", 0)}},
		{"a program that is not a runner", "", []event{bashCall("eslint", notFound("module"), 1), bashCall("git eslint", "ok", 0)}},
		{"an option with a digit", "", []event{bashCall("helm lint", notFound("certificate"), 1), bashCall("helm lint --w77812", "ok", 0)}},
		{"a very long option", "", []event{bashCall("podman build", notFound("schema"), 1), bashCall("podman build --"+strings.Repeat("a", 32), "ok", 0)}},
		{"an option followed by two words", "", []event{bashCall("mix build", notFound("cluster"), 1), bashCall("mix build --repo W77812 x", "ok", 0)}},
		{"a long option, value in a separate word", "run-gh-build-with-registry", []event{bashCall("gh build", notFound("template"), 1), bashCall("gh build --registry W77812", "ok", 0)}},
	})
}

// The test invents private words and uses them in values, names, paths and errors. No lesson may contain one.
func TestLessonsOmitPrivateWords(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test that can be repeated
	pick := func(list ...string) string { return list[rnd.IntN(len(list))] }
	private := func() string { // returns a word that is in no vocabulary
		return pick("Zq", "Xv", "Wk") + pick("ulon", "arbek", "ostrin", "imvael") + pick("", "7", "-Q3", "_x9") + pick("", ".corp", "/etc", "@qzxv")
	}
	message := func(param string) string {
		return pick(
			param+" must be an integer", "missing required parameter "+param, "unknown value "+private()+" for "+param, param+" not found: "+private(),
			private()+" is not a valid "+param, "cannot open "+private()+": "+param+" is required", private(), "the "+param+" of "+private()+" does not exist", "expected a date for "+param+", got "+private(),
		)
	}
	f := newFixture(t)
	for i := range 400 {
		tool := pick("find", "create", "list", "update", "book") + "_" + pick("order", "room", "ticket", "note") + fmt.Sprint("_", 'a'+rune(i%20))
		param := pick("order_id", "floor", "due_date", "query", "limit")
		args := func() string {
			object := map[string]any{param: pick(private(), "17", "2031-05-06", private()+" "+private())}
			if rnd.IntN(3) == 0 {
				object[pick("verbose", "region", "owner")] = private()
			}
			text, _ := json.Marshal(object)
			return string(text)
		}
		events := []event{user("Please look after " + private() + " for " + private())}
		for range 1 + rnd.IntN(3) {
			events = append(events, failedCall(tool, args(), message(param)))
		}
		if rnd.IntN(3) == 0 {
			events = append(events, call("lookup_"+tool, `{"name":"`+private()+`"}`, `{"found":["`+private()+`","17"]}`))
		}
		f.addSession(fmt.Sprint("s", i), append(events, acceptedCall(tool, args()))...)
	}
	f.runDistiller()
	list := f.lessons()
	if len(list) < 10 {
		t.Fatalf("got %d lessons %v, want at least 10", len(list), f.slugs())
	}
	for _, l := range list {
		text := strings.ToLower(l.Slug + l.Title + l.Body + l.Trigger.Description + fmt.Sprint(l.Trigger))
		for _, secret := range []string{"ulon", "arbek", "ostrin", "imvael", "qzxv", "2031-05-06", ".corp"} {
			if strings.Contains(text, secret) {
				t.Errorf("lesson %s contains the private word %q:\n%s", l.Slug, secret, l.Raw)
			}
		}
		if l.Title == "" {
			t.Error("Title is empty")
		}
		if l.Advice == "" {
			t.Error("Advice is empty")
		}
		if l.Trigger.Empty() {
			t.Error("Empty = true, want false")
		}
		if len(l.Evidence) == 0 {
			t.Error("Evidence is empty")
		}
	}
	for _, f := range (lesson.Checker{}).CheckBook(lesson.NewBook(list)) {
		if f.Severity == lesson.Error {
			t.Errorf("checking the lessons: %s", f)
		}
	}
}
