package distill_test

import "testing"

// declined returns a shell command that the user rejected.
func declined(command string) event {
	return call("bash", `{"command":"`+command+`"}`, "The user doesn't want to proceed with this tool use. The tool use was rejected.")
}

// A command that the user rejects or corrects gives a lesson if its words are public. A program, target or value of the
// project gives no lesson.
func TestUserRejectionsAndCorrectionsGiveLessons(t *testing.T) {
	checkLearned(t, []lessonCase{
		{"a correction from npm to pnpm", "use-pnpm-instead-of-npm", []event{
			ran("npm install left-pad", "added", 0), user("No, we use pnpm here, not npm."), ran("pnpm install left-pad", "added", 0),
		}},
		{"a program that no person refused", "", []event{
			ran("pip install six", "ok", 0), user("Thanks. How about uv?"), ran("uv pip install six", "ok", 0),
		}},
		{"a target for a script", "use-make-lint-instead-of-yarn-lint", []event{
			ran("yarn lint", "ok", 0), user("please use make lint"), ran("make lint", "ok", 0),
		}},
		{"a target with a word of the project", "", []event{
			ran("pytest tests", "ok", 0), user("No, not pytest. Use make w77812check."), ran("make w77812check", "ok", 0),
		}},
		{"an option", "run-cargo-clippy-with-all-targets", []event{
			ran("cargo clippy", "ok", 0), user("No, that is wrong, I want --all-targets there."), ran("cargo clippy --all-targets", "ok", 0),
		}},
		{"an option with a number", "run-go-vet-with-tests-false", []event{
			ran("go vet ./...", "ok", 0), user("No, that is wrong, pass --tests=false to it."), ran("go vet --tests=false ./...", "ok", 0),
		}},
		{"an option with a value of the session", "", []event{
			ran("docker run alpine", "ok", 0), user("No, that is wrong, give it --name w77812."), ran("docker run --name w77812 alpine", "ok", 0),
		}},
		{"an option that turns a check off", "", []event{
			ran("helm upgrade web", "ok", 0), user("No, that is wrong, use --force."), ran("helm upgrade --force web", "ok", 0),
		}},
		{"a refused command, then a similar command", "ask-before-running-terraform-apply-auto-approve", []event{
			declined("terraform apply -auto-approve"), ran("terraform apply", "ok", 0),
		}},
		{"a refused command, then a command that only reads", "ask-before-running-kubectl-delete-all", []event{
			declined("kubectl delete pods --all"), ran("kubectl get pods", "ok", 0),
		}},
		{"a program of the project", "", []event{declined("w77812-deploy --all"), ran("w77812-deploy", "ok", 0)}},
		{"a program without a subcommand", "", []event{declined("rm -rf build"), ran("rm build/a", "ok", 0)}},
		{"a program that a person forbids", "use-bun-instead-of-npx", []event{
			ran("npx tsc", "ok", 0), user("We go by bun for that, never npx."), ran("bun tsc", "ok", 0),
		}},
		{"a program in place of another program", "use-podman-instead-of-docker", []event{
			ran("docker build .", "ok", 0), user("Take podman instead of docker."), ran("podman build .", "ok", 0),
		}},
		{"a program that did not work either", "", []event{
			ran("mvn package", "ok", 0), user("No, not mvn, take gradle."), ran("gradle package", "error", 1),
		}},
		{"a changed program that no person named", "", []event{
			ran("conda list", "ok", 0), user("No, that is wrong."), ran("poetry show", "ok", 0),
		}},
		{"a target that was not named", "", []event{
			ran("yarn build", "ok", 0), user("please use make test"), ran("make build", "ok", 0),
		}},
		{"an option that was there before", "", []event{
			ran("ruff check --fix .", "ok", 0), user("No, that is wrong, I want --fix there."), ran("ruff check --fix src", "ok", 0),
		}},
		{"a changed option that no person named", "", []event{
			ran("go test ./...", "ok", 0), user("No, that is wrong."), ran("go test -race ./...", "ok", 0),
		}},
		{"a rejected tool that is no command", "", []event{
			call("send_mail", `{"to":"W77812"}`, "The user doesn't want to proceed with this tool use. The tool use was rejected."), ran("git status", "ok", 0),
		}},
		{"words before the first call", "", []event{user("Not npm, please."), ran("pnpm install", "ok", 0)}},
	})
}
