# make check   what a person runs before a commit: tidy, format, vet, lint, dead code, clones, prose, static build
# make test    all that decides: check, fuzz, every test with the race detector
# The other targets are told by make help.

GO       ?= go
LINT     := $(GO) tool -modfile=tools/go.mod golangci-lint
FUZZRUNS ?= 3000
BENCH    ?= .
COUNT    ?= 1
CLONE    ?= 70

# The race detector wants a C compiler on Linux. Without one the tests run all the same, and say what they did not look for.
HAVE_CC := $(shell command -v "$$($(GO) env CC | cut -d' ' -f1)" 2>/dev/null)
RACE    := $(if $(HAVE_CC),-race,)

.DEFAULT_GOAL := build
.PHONY: help build check tidy fmt fmt-fix vet lint dead clones prose test race norace fuzz chaos bench demo release real agents pictures paint e2e-deps clean

help: ## Tell the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## Build bin/precept, static
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags="-s -w" -o bin/precept ./cmd/precept

check: tidy fmt vet lint dead clones prose build ## Tidy, format, vet, lint, no dead code, no clones, plain English, static build

tidy:
	$(GO) mod tidy -diff

fmt:
	$(LINT) fmt --diff

fmt-fix: ## Format in place
	$(LINT) fmt

vet:
	$(GO) vet ./...

lint:
	$(LINT) run

dead: ## Functions that the program never reaches
	@GO="$(GO)" tools/dead.sh

clones: ## The same code twice, from CLONE syntax nodes on; tests may repeat themselves
	@found=$$(git ls-files '*.go' | grep -vE '_test\.go$$|^(store/storetest|inject/bank/banktest|test)/' | $(GO) tool -modfile=tools/go.mod dupl -files -plumbing -t $(CLONE)); \
		[ -z "$$found" ] || { echo "clones, make one of them:"; echo "$$found"; exit 1; }

prose: ## Comments and pages in plain English; prose_test.go lists the packages that are not rewritten yet
	$(GO) test -run Prose .

test: check fuzz norace race ## All that decides

race: ## Every test, shuffled, with the race detector
	$(if $(RACE),,@echo "no C compiler: tests run without the race detector")
	$(if $(RACE),CGO_ENABLED=1,) $(GO) test $(RACE) -shuffle=on -timeout 40m ./...

norace: ## The tests that the race detector is kept out of: simulations, timings, thousands of sessions
	@GO="$(GO)" tools/norace.sh

fuzz: ## Every fuzz target on FUZZRUNS inputs
	@GO="$(GO)" tools/fuzz.sh $(FUZZRUNS)

chaos: ## The whole program killed, starved and damaged, for minutes (make test does it for seconds)
	PRECEPT_CHAOS=1 $(GO) test -run Chaos -count=1 -p 1 -timeout 30m -v ./test/chaos ./test/server

bench: ## Benchmarks, for benchstat (BENCH=regexp COUNT=n)
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -count $(COUNT) ./...

demo: build ## Everything in one process against a built-in upstream
	bin/precept demo

release: ## Archives for six targets, checksums, bills of materials, into dist; one target built twice
	GO="$(GO)" tools/release.sh

real: build ## A real model of 270M parameters: the truth beside the report (a quarter of an hour, 330 MB)
	bash tools/real/setup.sh
	cd .cache/real && node run.mjs model.gguf "$(CURDIR)/bin/precept" "$(CURDIR)/tools/real/lessons"

agents: ## Real agents, from npm and PyPI, directly and through precept; prints the matrix (takes an hour and more)
	GO="$(GO)" bash tools/agents.sh

pictures: ## Pictures of the dashboard's pages, of a demo, into docs/img (needs chromium)
	PRECEPT_PICTURES="$(CURDIR)/docs/img/pages" $(GO) test -count=1 -timeout 10m -run '^TestPictures$$' ./test/browser

paint: ## First paint of every page over 2,000 lessons and 1,000,000 sessions (minutes, 6 GB; needs chromium)
	PRECEPT_PAINT="2000 1000000" $(GO) test -count=1 -timeout 30m -run '^TestFirstPaint$$' -v ./test/browser

e2e-deps: .cache/venv/.done .cache/node/.done .cache/promtool/.done ## The clients of the end-to-end tests, into .cache

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

# promtool alone, out of Debian's package: the daemon beside it stays out. Without apt the test that wants it is skipped.
.cache/promtool/.done:
	rm -rf .cache/promtool && mkdir -p .cache/promtool
	-command -v promtool >/dev/null || (cd .cache/promtool && apt-get download -qq prometheus && dpkg -x prometheus_*.deb . && rm -f *.deb)
	touch $@

clean: ## Remove what was built
	rm -rf bin dist .cache
