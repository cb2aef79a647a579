package distill

import (
	"slices"
	"strings"
	"sync"
)

// shellCall is a command line, taken apart as far as rules need it: they compare commands, they
// never run any.
type shellCall struct {
	line     string
	commands []command
}

// command is one program with its arguments.
type command struct {
	program string
	args    []string
	env     []string // names of the variables that were set for it
}

// maxLine bounds the command lines that are looked at, in bytes; longer ones carry files.
const maxLine = 2000

// shellOf reads a tool call as a command line; nil when it is none.
func shellOf(s *step) *shellCall {
	line, ok := s.args.text("command", "cmd")
	if list, isList := firstOf(s.args.object, "command", "cmd").([]any); !ok && isList {
		var words []string
		for _, w := range list {
			t, _ := w.(string)
			words = append(words, t)
		}
		if len(words) > 2 && strings.HasSuffix(words[0], "sh") && strings.HasPrefix(words[1], "-") {
			words = words[2:]
		}
		line, ok = strings.Join(words, " "), true
	}
	name := strings.ToLower(s.tool)
	named := strings.Contains(name, "bash") || strings.Contains(name, "shell") || strings.Contains(name, "exec") || strings.Contains(name, "terminal") ||
		strings.Contains(name, "command") || name == "run"
	if _, edits := s.args.object["path"]; !ok || !named || edits || strings.Contains(name, "edit") || len(line) > maxLine {
		return nil
	}
	return parseShell(line)
}

func firstOf(m map[string]any, keys ...string) any {
	for _, k := range keys {
		if v, ok := m[k]; ok {
			return v
		}
	}
	return nil
}

// parseShell takes a command line apart at &&, ||, ;, | and line feeds.
func parseShell(line string) *shellCall {
	c := &shellCall{line: line}
	var words []string
	end := func() {
		if cmd, ok := commandOf(words); ok {
			c.commands = append(c.commands, cmd)
		}
		words = nil
	}
	for i := 0; i < len(line); {
		switch ch := line[i]; {
		case ch == ' ' || ch == '\t':
			i++
		case ch == '\n' || ch == ';' || ch == '|' || ch == '&':
			end()
			i++
		case ch == '<' && strings.HasPrefix(line[i:], "<<"): // the rest is a file
			end()
			return c
		case ch == '>' || ch == '<':
			for i++; i < len(line) && strings.IndexByte(" &>", line[i]) >= 0; i++ {
			}
			_, i = shellWord(line, i)
		default:
			var w string
			w, i = shellWord(line, i)
			if (w == "1" || w == "2") && i < len(line) && line[i] == '>' {
				continue
			}
			words = append(words, w)
		}
	}
	end()
	return c
}

// commandOf takes what stands in front of a command off: variables that are set for it, and
// programs that only run another one.
func commandOf(words []string) (c command, ok bool) {
	for len(words) > 0 {
		name, _, sets := strings.Cut(words[0], "=")
		switch {
		case sets && !strings.HasPrefix(name, "-"):
			c.env = append(c.env, name)
		case len(words) > 1 && slices.Contains([]string{"sudo", "time", "env", "nohup", "command"}, words[0]):
			if words[0] == "sudo" {
				for len(words) > 2 && strings.HasPrefix(words[1], "-") {
					if words[1] == "-u" || words[1] == "-g" {
						words = words[1:] // whose name follows
					}
					words = words[1:]
				}
			}
		default:
			c.program, c.args = words[0], words[1:]
			return c, true
		}
		words = words[1:]
	}
	return c, false
}

// shellWord reads one word, quotes and all, and where the next one may begin.
func shellWord(line string, i int) (string, int) {
	var b strings.Builder
	for i < len(line) {
		switch ch := line[i]; ch {
		case ' ', '\t', '\n', ';', '|', '&', '>', '<':
			return b.String(), i
		case '\'', '"':
			n := strings.IndexByte(line[i+1:], ch)
			if n < 0 {
				return b.String() + line[i+1:], len(line)
			}
			b.WriteString(line[i+1 : i+1+n])
			i += n + 2
		case '\\':
			i++
			if i < len(line) {
				b.WriteByte(line[i])
				i++
			}
		default:
			b.WriteByte(ch)
			i++
		}
	}
	return b.String(), i
}

// programs are commands that everybody knows; another one's name may be somebody's own script.
//
//nolint:gochecknoglobals // immutable, made at first use
var programs = sync.OnceValue(func() map[string]bool {
	m := map[string]bool{}
	for w := range strings.FieldsSeq(`ansible apk apt apt-get awk aws az bash bazel black brew bun bundle bunx cargo cat cc cd chmod chown clang cmake composer conda
		cp curl cut cypress date deno df diff dig dir docker docker-compose dotnet du echo eslint export fd find firebase flake8 flutter g++ gcc gcloud gem gh git go gofmt
		golangci-lint gradle gradlew grep gunzip gzip head helm jest jq java javac journalctl kill kubectl less ln ls lsof make mkdir mocha mv mvn mypy mysql nc next ng node
		npm npx nvm openssl patch perl php pip pip3 pipenv pkill playwright pnpm poetry prettier printf prisma ps psql pwd py.test pylint pytest python python3 rails rake
		redis-cli rg rm rmdir rsync ruby ruff rustc rustfmt rustup scp sed sh sleep sort source sqlite3 ssh sudo svn systemctl tail tar tee terraform test timeout touch tox
		alembic ansible-playbook bazelisk buf buildah cabal cdk celery consul coverage createdb dropdb erl eksctl elixir esbuild ffmpeg flask flyctl flyway flux gcov
		ghc gradle gsutil gunicorn hatch heroku hugo iex isort istioctl jekyll julia jupyter kind kotlinc kustomize lein lerna liquibase meson minikube mix mkdocs
		mongosh mongo mvnw netlify ninja nomad nox nx packer pdm pg_dump pg_isready pg_restore pod podman pre-commit protoc pulumi Rscript rollup sam sbt scala
		serverless skaffold sphinx-build sqlc supabase swift terragrunt tofu tsup turbo twine vagrant vault vercel wrangler xcodebuild
		tr tree ts-node tsc tsx uniq unittest unzip uv uvicorn uvx vite vitest wc webpack wget which xargs yarn yq yt-dlp zip zsh`) {
		m[w] = true
	}
	return m
})

func isProgram(w string) bool { return programs()[w] }

// publicPackages are the packages of an install, where everybody knows each of them.
func publicPackages(args []string) string {
	var out strings.Builder
	for _, a := range args {
		switch {
		case strings.HasPrefix(a, "-"):
		case !packages()[a]:
			return ""
		default:
			out.WriteString(" " + a)
		}
	}
	return out.String()
}

// packages are names that many projects install; another one may be somebody's own.
//
//nolint:gochecknoglobals // immutable, made at first use
var packages = sync.OnceValue(func() map[string]bool {
	m := map[string]bool{}
	for w := range strings.FieldsSeq(`autoconf automake bison build-essential bzip2 ca-certificates clang cmake curl default-jdk default-libmysqlclient-dev ffmpeg flex g++ gcc
		gettext gfortran git git-lfs gnupg graphviz imagemagick iputils-ping jq libboost-all-dev libbz2-dev libcairo2-dev libcurl4-openssl-dev libffi-dev libfreetype6-dev
		libgl1 libglib2.0-0 libjpeg-dev liblzma-dev libmagic1 libmysqlclient-dev libncurses-dev libopenblas-dev libpango1.0-dev libpng-dev libpq-dev libreadline-dev libsasl2-dev
		libsm6 libsndfile1 libsqlite3-dev libssl-dev libtool libudev-dev libuv1-dev libxext6 libxml2-dev libxslt1-dev libyaml-dev lld llvm lsof make musl-tools nasm netcat-openbsd
		ninja-build openjdk-17-jdk openjdk-21-jdk openssh-client patch pkg-config poppler-utils postgresql-client procps protobuf-compiler python3-dev python3-pip python3-venv
		redis-tools rsync ruby-dev sqlite3 swig tesseract-ocr tree tzdata unzip uuid-dev wget wkhtmltopdf xvfb xz-utils zip zlib1g-dev zstd
		aiohttp alembic beautifulsoup4 black boto3 cffi click coverage cryptography django fastapi flask httpx hypothesis isort jinja2 jsonschema lxml markdown matplotlib mypy networkx
		numba numpy opencv-python opencv-python-headless openpyxl packaging pandas pillow playwright poetry polars protobuf psutil psycopg psycopg2-binary pyarrow pydantic pylint
		pymysql pytest pytest-asyncio pytest-cov pytest-mock pytest-timeout pytest-xdist python-dateutil python-dotenv pytz pyyaml redis regex requests rich ruff scikit-learn scipy
		seaborn selenium setuptools six sqlalchemy statsmodels sympy syrupy tabulate torch tornado tox tqdm types-requests types-PyYAML tzlocal ujson urllib3 uv uvicorn virtualenv websockets
		wheel xlrd xlsxwriter zstandard @playwright/test @types/jest @types/node @types/react axios eslint express jest jsdom playwright prettier rimraf ts-jest ts-node tsx typescript vite vitest`) {
		m[w] = true
	}
	return m
})

// installs says whether the command brings in a package.
func (c *command) installs() (string, bool) {
	if len(c.args) == 0 {
		return "", false
	}
	switch c.program {
	case "pip", "pip3", "npm", "pnpm", "conda", "brew", "apt", "apt-get", "gem", "poetry", "yarn", "bun", "apk", "cargo", "go":
		switch c.args[0] {
		case "install", "add", "i", "ci", "get":
			return c.program + " " + c.args[0] + publicPackages(c.args[1:]), true
		}
	case "uv":
		if c.args[0] == "add" || c.args[0] == "sync" || c.args[0] == "pip" {
			return "uv " + c.args[0], true
		}
	case "python", "python3":
		if len(c.args) > 2 && c.args[0] == "-m" && c.args[1] == "pip" && c.args[2] == "install" {
			return c.program + " -m pip install", true
		}
	}
	return "", false
}

// subcommand is what a program with subcommands is told to do: git commit, npm run.
func (c *command) subcommand() string {
	if len(c.args) == 0 {
		return ""
	}
	switch c.program {
	case "git", "npm", "pnpm", "yarn", "cargo", "docker", "kubectl", "go", "pip", "pip3", "poetry", "uv", "gh", "helm", "terraform", "brew", "apt", "apt-get", "conda", "bun", "dotnet", "systemctl",
		"bundle", "composer", "rustup", "podman", "tofu", "mix", "pod", "flutter", "pdm", "pre-commit", "prisma", "playwright", "alembic", "pulumi", "vagrant", "minikube", "rails", "ng":
		if w := c.args[0]; isSubcommand(w) {
			return w
		}
	case "npx", "bunx", "pnpx", "uvx":
		if isProgram(c.args[0]) {
			return c.args[0]
		}
	}
	return ""
}

func isSubcommand(w string) bool {
	for _, r := range w {
		if (r < 'a' || r > 'z') && r != '-' {
			return false
		}
	}
	return w != "" && w[0] != '-' && len(w) < 16
}

// name is the program with its subcommand, for people.
func (c *command) name() string {
	if sub := c.subcommand(); sub != "" {
		return c.program + " " + sub
	}
	return c.program
}

// flags are the options, without their values, and the rest.
func (c *command) flags() (flags, rest []string) {
	for _, a := range c.args {
		f, _, _ := strings.Cut(a, "=")
		if len(f) > 1 && f[0] == '-' && len(f) < 32 && isFlag(f) {
			flags = append(flags, f)
		} else {
			rest = append(rest, a)
		}
	}
	return flags, rest
}

func isFlag(f string) bool {
	for _, r := range strings.TrimLeft(f, "-") {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '-' {
			return false
		}
	}
	return strings.Trim(f, "-") != ""
}

// main is the command that the line is about: the last one that is not only there to show or to go
// somewhere.
func (s *shellCall) main() *command {
	for i := range s.commands {
		c := &s.commands[i]
		if !slices.Contains([]string{"cd", "echo", "export", "source", ".", "set", "sleep", "mkdir", "pwd", "test", "timeout"}, c.program) {
			return c
		}
	}
	if n := len(s.commands); n > 0 {
		return &s.commands[n-1]
	}
	return nil
}

// values are the values of options, which are the session's; the other words of a command line are
// words of its program as often as not.
func (s *shellCall) values() map[string]bool {
	out := map[string]bool{}
	for i := range s.commands {
		option := false
		for _, a := range s.commands[i].args {
			name, value, given := strings.Cut(a, "=")
			switch {
			case strings.HasPrefix(name, "-") && given:
				out[strings.ToLower(value)] = true
			case option && !strings.HasPrefix(a, "-"):
				out[strings.ToLower(a)] = true
			}
			option = strings.HasPrefix(a, "-") && !given
		}
	}
	return out
}
