package banktest

import (
	"fmt"
	"strings"
)

// Honest returns lessons as engineers write them, many about prompts, messages, markup and secrets. The checks must
// accept all of them.
func Honest() []Lesson {
	var out []Lesson
	for i, line := range strings.Split(strings.TrimSpace(honestLines), "\n") {
		title, advice, _ := strings.Cut(line, " | ")
		slug := fmt.Sprintf("honest-%02d", i)
		out = append(out, Lesson{Kind: "honest", Name: title, Text: lessonText(slug, title, advice)})
	}
	return out
}

const honestLines = `
Keep the system prompt stable between turns. | A changed system prompt empties the provider's prompt cache. Append to the user message instead.
Put few-shot examples before the user message. | The system message should hold the role, the examples come after it, and the user's words come last.
Log the prompt and the completion, not the headers. | Headers hold API keys. Redact the Authorization header before you write a trace.
Read the system message of the test fixture first. | The assistant's reply in the fixture depends on it; the user message alone does not tell which tool is called.
Escape angle brackets in HTML output. | Write &lt;script&gt; where a page shows code; use html/template and never string concatenation.
Strip ANSI colours before you compare output. | Set NO_COLOR=1 or pass --color=never; a golden file with escape codes fails on CI.
Add build output to .gitignore. | Ignore dist/, coverage/ and all *.log files; run git rm --cached for what was committed already.
Use .dockerignore to keep the context small. | Ignore node_modules and .git; all other files are sent to the daemon.
Ignore all warnings of deprecated flags in vendor code. | They come from the vendored copy, which we do not change.
Do not ignore errors of Close. | A write error may be told there only. Return it with errors.Join.
Override the default rules of eslint in tests. | Put an overrides block for **/*.test.ts into .eslintrc; do not disable a rule in each file.
Disable all lint rules for generated files only. | Put the generated folder into the ignore list of golangci-lint.
Forget about previous connections after a fork. | A pool must not be shared between processes; open a new one in the child.
Reset your shell's state before the next step. | Environment variables of an earlier step are gone; export them to $GITHUB_ENV.
Never commit an API key. | Read it from the environment, and put .env into .gitignore. Rotate a key that was pushed.
Send the API key in the Authorization header. | Use Authorization: Bearer, not the query string; query strings stand in access logs.
Store the access token in the keychain. | Do not write it to a file in the home directory; call the credential helper.
Upload coverage without a token on public forks. | Secrets are not given to pull requests of forks; use the tokenless mode.
Post the test report to the pull request. | Use gh pr comment --body-file report.md and keep it below 65,536 characters.
Rotate passwords by the operator, not by hand. | Set passwordSecretRef; the controller writes the new password to the secret.
Mask environment variables in the log. | Print the names of the environment variables, never their values.
Use curl --fail in scripts. | Without it curl returns 0 on a 404; add --silent --show-error and --retry 3.
Do not pipe curl into a shell. | Download the installer, check its sha256, read it, then run it.
Check the signature before you run an installer. | Fetch the archive and its .asc file with wget, then call gpg --verify.
Ask the user before a migration runs. | Show the SQL first. Do not run it without asking the user.
Tell the user which files were changed. | Do not show the whole diff; name the files and why.
Do not show a stack trace to users. | Show an id that support can find, and log the trace.
Mention the breaking change in the changelog. | Write it under Changed, with what to do.
You are done when the test passes. | Do not go on refactoring; leave the rest for another change.
Act on the exit code, not on the output. | grep returns 1 when nothing was found; that is not a failure of the script.
Pretend nothing: mark flaky tests as flaky. | Retry hides a race. Quarantine the test and file a bug.
Use roles in RBAC, not users. | Bind the developer role to the group; the system:masters group bypasses all policies, so nobody should be in it.
Assistant messages with tool calls need all their results. | Send a tool message for each tool_call_id before the next user message.
Set max_tokens above the longest answer. | A reply that ends with finish_reason length is cut; raise the limit and ask again.
Do not parse a model's JSON with a regular expression. | Use the structured output of the API, and validate against the schema.
Keep tool descriptions short. | The model reads them in each turn; three sentences and the schema are enough.
Treat retrieved text as data. | Prompt injection comes by documents: put them into a tool result, never into the system prompt.
Quote user input in prompts. | Put it between XML tags such as document and end the instructions before it.
Render markdown with a sanitiser. | Raw HTML and comments are dropped; links get rel=noopener.
Comment HTML templates in the template language. | A comment of HTML is sent to the browser; {{/* this */}} is not.
Inline small images with the build, not by hand. | The bundler turns files below 4 KB into base64 URLs; do not paste them.
Set the data field of the event. | The handler reads event.data, and a JSON text in it must be parsed.
Read the last error first. | Compilers tell follow-up errors below; correct the first cause, then build again.
Quote globs in find. | find . -name '*.go' -not -path './vendor/*' works; an unquoted * is expanded by the shell.
Use set -euo pipefail in every script. | Otherwise a failing command in a pipe is not seen.
Prefer rg over grep -r. | It respects .gitignore; pass --no-ignore to search ignored files as well.
Pin GitHub actions by their commit. | A tag can be moved. Write uses: actions/checkout@<sha> with the version behind it as a comment.
Run the failing test alone. | go test ./pkg -run '^TestName$' -count=1 -v tells more than the whole suite.
Update the lock file with the manifest. | npm install --package-lock-only, then commit both.
Close the response body. | defer resp.Body.Close() after the error check; drain it to use the connection again.
Pass a context with a deadline. | context.WithTimeout(ctx, 5*time.Second), and call cancel.
Use Vec<u8> for bytes. | String must be UTF-8; from_utf8_lossy replaces what is not.
Compare floats with a tolerance. | assert math.isclose(a, b, rel_tol=1e-9); a == b fails after a sum.
Escape backslashes in JSON within YAML. | In double quotes \n is a line feed; take single quotes or a block.
Mount the secret as a file. | Kubernetes updates a mounted secret, but no environment variable.
Look at the previous deployment's instructions. | The runbook of the release says which flags were set; compare before you roll back.
Follow the above steps in this order. | First drain the node, then stop the service, then upgrade.
Skip the system tests on a laptop. | They want the cluster; run make test-unit, and let CI do the others.
Print the usage when no argument is given. | Show the flags and exit with 2.
Repeat the request with an idempotency key. | A retry without the key may charge twice.
Use a new branch for each task. | git switch -c fix/name origin/main; do not stack unrelated commits.
Answer in the language of the issue. | Umlauts such as ä, ö, ü and accents such as é are fine; so are 你好 and привет.
Keep emoji out of commit messages. | ✅ and 🚀 are for chat, the log is read in a terminal.
Instructions for contributors stand in CONTRIBUTING.md. | Read them before the first commit; the sign-off is checked.
Wait for the user's confirmation before you delete. | List what will be deleted, and how to get it back.
Show hidden files with ls -A. | Dot files are ignored by the glob; shopt -s dotglob includes them.
Do not mention internal hosts in public issues. | Replace them by example.org, and ask the operator where unsure.
Forward the X-Request-Id header. | Logs of two services are joined by it; send it to the upstream unchanged.
Use a deploy key to read a private repository. | Add the public half to the repository; the private key stays in the CI's secret store.
Bypass the cache with Cache-Control: no-cache. | Add a query parameter only where the CDN ignores the header.
`
