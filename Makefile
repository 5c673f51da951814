# make run    build and serve providers.hcl
# make test   everything that must hold, from formatting to real servers and clients
#
# Nothing here needs more than Go, and Node 20 with Chromium for `make e2e`. Tools are built from
# source at the versions that their own go.mod under .ci pins, so that they add nothing to ours.

SHELL       := bash
.SHELLFLAGS := -euo pipefail -c

GO     ?= go
BIN    := bin
LINT   := $(BIN)/golangci-lint
BUF    := $(GO) tool -modfile=.ci/tools/go.mod buf
NPM    := host/internal/e2e/testdata/npm
CONFIG ?= providers.hcl
# How long each fuzz target runs in `make fuzz`.
FUZZTIME ?= 10s

.PHONY: all
all: build

.PHONY: run
run: build
	exec $(BIN)/drawbridge serve --config $(CONFIG)

.PHONY: build
build:
	@mkdir -p $(BIN)
	$(GO) build -o $(BIN)/drawbridge ./host/cmd/drawbridge
	$(GO) build -o $(BIN)/notebook ./examples/servers/notebook

# One step after the other, the cheap first, whatever -j says: they share two cores, and some have deadlines.
STEPS := fmt-check tidy-check vet cross arrows proto-check lint unit e2e fuzz

.PHONY: test
test:
	@for step in $(STEPS); do \
		began=$$SECONDS; \
		echo "== $$step"; \
		$(MAKE) --no-print-directory $$step; \
		echo "== $$step took $$((SECONDS - began)) s"; \
	done

.PHONY: fmt
fmt:
	gofmt -w $$(git ls-files --cached --others --exclude-standard '*.go')

.PHONY: fmt-check
fmt-check:
	@out="$$(gofmt -l $$(git ls-files --cached --others --exclude-standard '*.go'))"; \
	if [ -n "$$out" ]; then echo "not formatted, run make fmt:"; echo "$$out"; exit 1; fi

.PHONY: tidy-check
tidy-check:
	$(GO) mod tidy -diff

.PHONY: vet
vet:
	$(GO) vet -tags e2e ./...

# Linux is proven; the others build.
.PHONY: cross
cross:
	for os in darwin windows; do GOOS=$$os $(GO) build ./... && GOOS=$$os $(GO) vet ./...; done

.PHONY: lint
lint: $(LINT)
	$(LINT) run ./...

$(LINT): .ci/lint/go.mod .ci/lint/go.sum
	@mkdir -p $(BIN)
	$(GO) build -C .ci/lint -o $(CURDIR)/$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	@touch $@

# Generates what shared/providerpb holds besides the proto file.
.PHONY: proto
proto:
	$(BUF) lint
	$(BUF) generate

# Generates into a folder of its own and compares, so that a stale file is found and not repaired.
.PHONY: proto-check
proto-check:
	$(BUF) lint
	@tmp=$$(mktemp -d); trap 'rm -rf "$$tmp"' EXIT; \
	$(BUF) generate -o "$$tmp"; \
	for file in shared/providerpb/*.pb.go "$$tmp"/shared/providerpb/*.pb.go; do \
		name=$$(basename "$$file"); \
		diff -u "$$tmp/shared/providerpb/$$name" "shared/providerpb/$$name" || { echo "$$name is not current, run make proto"; exit 1; }; \
	done

# The import arrows of docs/architecture.md.
.PHONY: arrows
arrows:
	$(GO) test -count=1 ./host/internal/arrows

# All but what needs npm's packages, which has the build tag e2e. What starts hosts and servers by the
# dozen runs by itself, one after the other: side by side they would starve each other of two cores.
#
# A process that has the race detector sleeps for a second before it exits, and the tests start thousands.
export GORACE ?= atexit_sleep_ms=0
HEAVY := ./host/containment ./host/internal/crossing ./host/internal/killtest
GOTEST := $(GO) test -race -timeout 15m -json

.PHONY: unit
unit:
	$(GOTEST) $$($(GO) list ./... | grep -vxF "$$($(GO) list $(HEAVY))") | $(GO) run ./host/internal/testsummary
	for package in $(HEAVY); do $(GOTEST) -parallel 3 $$package | $(GO) run ./host/internal/testsummary; done

.PHONY: fuzz
fuzz:
	FUZZTIME=$(FUZZTIME) .ci/fuzz

# Real servers and real clients, from npm's lock file.
.PHONY: e2e
e2e: build $(NPM)/node_modules/.package-lock.json
	$(GO) test -tags e2e -count=1 -timeout 15m -json ./host/internal/e2e/... | $(GO) run ./host/internal/testsummary

$(NPM)/node_modules/.package-lock.json: $(NPM)/package.json $(NPM)/package-lock.json
	cd $(NPM) && npm ci --no-audit --no-fund --ignore-scripts
	@touch $@

# The official conformance suite alone, with its table of scenarios and results.
.PHONY: conformance
conformance: $(NPM)/node_modules/.package-lock.json
	$(GO) test -tags e2e -count=1 -run '^TestConformance$$' -v ./host/internal/e2e

# Direct against through-the-host, in one run. Not part of `make test`: it measures, on a quiet machine.
.PHONY: bench
bench: build
	$(GO) run ./host/internal/bench -drawbridge $(BIN)/drawbridge

# The kill tables, ROUNDS times a cell: tier, user, phase, victim, survivors; and a whole minute of twenty
# providers that have nothing to do, where ROUNDS is over ten. Of 100 rounds it takes two hours.
ROUNDS ?= 100
.PHONY: soak
soak:
	CONTAINMENT_ROUNDS=$(ROUNDS) $(GO) test -count=1 -v -timeout 0 -run 'TestNothingIsLeft|AtOnce' ./host/containment
	KILLTEST_ROUNDS=$(ROUNDS) $(GO) test -count=1 -v -timeout 0 -run 'TestNothingIsLeft|TestCrowd|TestManyProviders' ./host/internal/killtest

.PHONY: clean
clean:
	rm -rf $(BIN)
