package distill_test

import "testing"

// rejectedCommand returns a bash call that the user rejected.
func rejectedCommand(command string) event {
	return call("bash", `{"command":"`+command+`"}`, "The user doesn't want to proceed with this tool use. The tool use was rejected.")
}

// The user rejects a command or corrects the agent. The lesson must contain no private words, such as a project's own
// names for programs, targets and values.
func TestUserRejectionsAndCorrectionsGiveLessons(t *testing.T) {
	checkLessons(t, []lessonCase{
		{"a correction from npm to pnpm", "use-pnpm-instead-of-npm", []event{
			bashCall("npm install left-pad", "added", 0), user("No, we use pnpm here, not npm."), bashCall("pnpm install left-pad", "added", 0),
		}},
		{"a program that the user did not reject", "", []event{
			bashCall("pip install six", "ok", 0), user("Thanks. How about uv?"), bashCall("uv pip install six", "ok", 0),
		}},
		{"a make target instead of a script", "use-make-lint-instead-of-yarn-lint", []event{
			bashCall("yarn lint", "ok", 0), user("please use make lint"), bashCall("make lint", "ok", 0),
		}},
		{"a target with a project word", "", []event{
			bashCall("pytest tests", "ok", 0), user("No, not pytest. Use make w77812check."), bashCall("make w77812check", "ok", 0),
		}},
		{"an option", "run-cargo-clippy-with-all-targets", []event{
			bashCall("cargo clippy", "ok", 0), user("No, that is wrong, I want --all-targets there."), bashCall("cargo clippy --all-targets", "ok", 0),
		}},
		{"an option with a number", "run-go-vet-with-tests-false", []event{
			bashCall("go vet ./...", "ok", 0), user("No, that is wrong, pass --tests=false to it."), bashCall("go vet --tests=false ./...", "ok", 0),
		}},
		{"an option with a session value", "", []event{
			bashCall("docker run alpine", "ok", 0), user("No, that is wrong, give it --name w77812."), bashCall("docker run --name w77812 alpine", "ok", 0),
		}},
		{"an option that turns a check off", "", []event{
			bashCall("helm upgrade web", "ok", 0), user("No, that is wrong, use --force."), bashCall("helm upgrade --force web", "ok", 0),
		}},
		{"a refused command, then a similar command", "ask-before-running-terraform-apply-auto-approve", []event{
			rejectedCommand("terraform apply -auto-approve"), bashCall("terraform apply", "ok", 0),
		}},
		{"a refused command, then a command that only reads", "ask-before-running-kubectl-delete-all", []event{
			rejectedCommand("kubectl delete pods --all"), bashCall("kubectl get pods", "ok", 0),
		}},
		{"a private program", "", []event{rejectedCommand("w77812-deploy --all"), bashCall("w77812-deploy", "ok", 0)}},
		{"a program without a subcommand", "", []event{rejectedCommand("rm -rf build"), bashCall("rm build/a", "ok", 0)}},
		{"a program that the user forbids", "use-bun-instead-of-npx", []event{
			bashCall("npx tsc", "ok", 0), user("We go by bun for that, never npx."), bashCall("bun tsc", "ok", 0),
		}},
		{"one program instead of another", "use-podman-instead-of-docker", []event{
			bashCall("docker build .", "ok", 0), user("Take podman instead of docker."), bashCall("podman build .", "ok", 0),
		}},
		{"a second program that fails, too", "", []event{
			bashCall("mvn package", "ok", 0), user("No, not mvn, take gradle."), bashCall("gradle package", "error", 1),
		}},
		{"a changed program that the user did not name", "", []event{
			bashCall("conda list", "ok", 0), user("No, that is wrong."), bashCall("poetry show", "ok", 0),
		}},
		{"a target that the user did not name", "", []event{
			bashCall("yarn build", "ok", 0), user("please use make test"), bashCall("make build", "ok", 0),
		}},
		{"an option that was there before", "", []event{
			bashCall("ruff check --fix .", "ok", 0), user("No, that is wrong, I want --fix there."), bashCall("ruff check --fix src", "ok", 0),
		}},
		{"a changed option that the user did not name", "", []event{
			bashCall("go test ./...", "ok", 0), user("No, that is wrong."), bashCall("go test -race ./...", "ok", 0),
		}},
		{"a rejected tool that runs no command", "", []event{
			call("send_mail", `{"to":"W77812"}`, "The user doesn't want to proceed with this tool use. The tool use was rejected."), bashCall("git status", "ok", 0),
		}},
		{"a correction before the first call", "", []event{user("Not npm, please."), bashCall("pnpm install", "ok", 0)}},
	})
}
