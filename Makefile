# make check   checks before a commit: tidy, format, lint with vet, dead code, clones, prose, static build
# make test    all checks and tests: check, fuzz, every test with the race detector
# make help    lists the other targets

GO       ?= go
# Fewer garbage collections save a quarter of the linter's CPU time, and take up to 4 GiB of memory.
LINT     := GOGC=300 GOMEMLIMIT=4GiB $(GO) tool -modfile=tools/go.mod golangci-lint
FUZZRUNS ?= 3000
BENCH    ?= .
COUNT    ?= 1
CLONE    ?= 70
VERSION  ?=

# All commands but the race detector compile with the static binary's flags, so that each package is compiled once.
export CGO_ENABLED := 0
export GOFLAGS     := -trimpath $(filter-out -trimpath,$(GOFLAGS))

# Linker flags. With VERSION the binary shows this version; else Go writes the commit in the Git directory.
LDFLAGS  := -s -w -X precept/cmd/precept/server.version=$(VERSION)

# Packages tested without the race detector: packages without concurrent code, tests that read source and pages, and
# whole-program tests. The tests in proxy, store, learn, test/chaos, test/fleet and test/server run the same concurrent
# code with it.
PLAIN  := precept precept/bandit/feedback precept/bandit/report precept/bandit/trial precept/cmd/precept/demo \
          precept/cmd/precept/history precept/cmd/precept/lake precept/configs precept/detect precept/docs \
          precept/inject/backtest precept/inject/request precept/inject/rules precept/inject/writ \
          precept/internal/label precept/internal/price precept/internal/shell precept/internal/spell \
          precept/internal/work precept/test/agents precept/test/learning precept/test/privacy precept/test/project \
          precept/test/verbs
SPACE  := $(subst ,, )

# The race detector needs a C compiler on Linux. Without one, the tests run without the race detector and print a note.
HAVE_CC := $(shell command -v "$$($(GO) env CC | cut -d' ' -f1)" 2>/dev/null)
RACE    := $(if $(HAVE_CC),-race,)

# The race detector does not instrument SQLite (C translated to Go), which would make the store tests eight times
# slower.
RACE_FLAGS := $(if $(RACE),CGO_ENABLED=1 GOFLAGS="$(GOFLAGS) -gcflags=modernc.org/...=-race=false",)

.DEFAULT_GOAL := build
.PHONY: help build image check tidy fmt fmt-fix lint dead clones prose openapi test unraced race norace fuzz chaos day reads bench demo release real agents pictures paint e2e-deps clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## Build bin/precept as a static binary (VERSION=v1.2.3: the version that the binary shows)
	$(GO) build -ldflags="$(LDFLAGS)" -o bin/precept ./cmd/precept

check: tidy fmt lint dead clones prose openapi build ## Run tidy, format, lint with vet, dead code, clones, prose, openapi and the static build

tidy:
	$(GO) mod tidy -diff

fmt:
	$(LINT) fmt --diff

fmt-fix: ## Format in place
	$(LINT) fmt

lint: ## Run golangci-lint, which includes go vet
	$(LINT) run

dead: ## Find unreachable functions
	@GO="$(GO)" tools/dead.sh

clones: ## Find duplicate code of at least CLONE syntax nodes; tests are exempt
	@found=$$(git ls-files '*.go' | grep -vE '_test\.go$$|^(store/storetest|inject/bank/banktest|test)/' | $(GO) tool -modfile=tools/go.mod dupl -files -plumbing -t $(CLONE)); \
		[ -z "$$found" ] || { echo "duplicate code; merge these places:"; echo "$$found"; exit 1; }

prose: ## Check comments and pages for plain English (prose_test.go)
	$(GO) test -run Prose .

openapi: ## Check that admin/openapi.yaml matches the types; update: go test ./test/project -run OpenAPISchemasMatch -update
	$(GO) test -run OpenAPISchemasMatch ./test/project

test: ## Run all checks and tests; race runs beside the others
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=line unraced race

# unraced runs one target at a time: two Go commands that need the same package at the same time both compile the
# package. race compiles with other flags, so nothing is compiled twice. E2E_DEPS=e2e-deps installs the clients first.
unraced:
	@MAKEFLAGS='$(filter-out -j% --jobserver%,$(MAKEFLAGS))' $(MAKE) --no-print-directory $(E2E_DEPS) check fuzz norace

race: ## Run the tests, shuffled, with the race detector; norace runs TestBrowser... and PLAIN packages
	$(if $(RACE),,@echo "no C compiler: tests run without the race detector")
	$(RACE_FLAGS) $(GO) test $(RACE) -skip '^TestBrowser' -vet=off -shuffle=on -timeout 40m $$($(GO) list ./... | grep -vxE '$(subst $(SPACE),|,$(PLAIN))')

norace: ## Run the tests that are too slow for the race detector: simulations, timings, thousands of sessions, PLAIN packages
	@GO="$(GO)" tools/norace.sh $(PLAIN)
	$(GO) test -vet=off -shuffle=on -timeout 20m $(PLAIN)

fuzz: ## Run every fuzz target on FUZZRUNS inputs
	@GO="$(GO)" tools/fuzz.sh $(FUZZRUNS)

chaos: ## Kill, starve and damage the whole program for minutes (make test: for seconds)
	PRECEPT_CHAOS=1 $(GO) test -run Chaos -count=1 -p 1 -timeout 30m -v ./test/chaos ./test/server

day: ## Simulate a day of ten replicas on one Redis (settings REDIS) with SESSIONS sessions and REQUESTS requests each (make norace: a few hundred)
	$(GO) test -run TestFleetCountersEqualSingleProcess -count=1 -timeout 12h -v ./learn -day.sessions $(or $(SESSIONS),100000) -day.requests $(or $(REQUESTS),20) -day.redis "$(REDIS)"

reads: ## Measure a report and a chooser refresh with 2,000 lessons in 256 shards and SESSIONS counted sessions
	$(GO) test -run '^$$' -bench BenchmarkReads -benchtime 20x -timeout 1h ./learn -reads.sessions $(or $(SESSIONS),100000)

bench: ## Run benchmarks, for benchstat (BENCH=regexp COUNT=n)
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -count $(COUNT) ./...

demo: build ## Run the demo: everything in one process against a built-in upstream; Ctrl-C ends the dashboard
	bin/precept demo

image: ## Build the container image precept with the commit's version (VERSION=v1.2.3: another version)
	docker build --build-arg VERSION="$(or $(VERSION),$(shell git describe --tags --always --match 'v*' --dirty))" -t precept .

release: ## Build archives for six targets, checksums and bills of materials in dist; one target twice
	GO="$(GO)" tools/release.sh

real: build ## Compare true and measured effects with a real 270M model (20 minutes, 330 MB)
	bash tools/real/setup.sh
	cd .cache/real && node run.mjs model.gguf "$(CURDIR)/bin/precept" "$(CURDIR)/tools/real/lessons"

agents: ## Run real agents from npm and PyPI directly and through precept, and print the matrix (an hour or more)
	GO="$(GO)" bash tools/agents.sh

pictures: ## Take pictures of the demo dashboard, into docs/img (needs chromium)
	PRECEPT_PICTURES="$(CURDIR)/docs/img/pages" $(GO) test -count=1 -timeout 10m -run '^TestPictures$$' ./test/browser

paint: ## Measure every page's first paint with 2,000 lessons and 1,000,000 sessions (minutes, 6 GB; needs chromium)
	PRECEPT_PAINT="2000 1000000" $(GO) test -count=1 -timeout 30m -run '^TestFirstPaint$$' -v ./test/browser

e2e-deps: .cache/venv/.done .cache/node/.done .cache/promtool/.done ## Install the clients for the end-to-end tests in .cache

.cache/venv/.done: tools/e2e/requirements.txt
	rm -rf .cache/venv
	python3 -m venv .cache/venv
	.cache/venv/bin/pip install --quiet --disable-pip-version-check -r $<
	touch $@

.cache/node/.done: tools/e2e/package.json tools/e2e/package-lock.json
	rm -rf .cache/node && mkdir -p .cache/node
	cp $^ .cache/node/
	cd .cache/node && npm ci --no-audit --no-fund --loglevel=error
	touch $@

# Only promtool from Debian's package prometheus, without the daemon. Without apt the promtool test is skipped.
.cache/promtool/.done:
	rm -rf .cache/promtool && mkdir -p .cache/promtool
	-command -v promtool >/dev/null || (cd .cache/promtool && apt-get download -qq prometheus && dpkg -x prometheus_*.deb . && rm -f *.deb)
	touch $@

clean: ## Remove build output and caches
	rm -rf bin dist .cache
