# `make help` lists what there is. Everything runs with Go alone; `make deps` installs what Go cannot: Postgres, PgBouncer,
# and the languages of the manual's workers.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

# Toolchains are what the machine has, never fetched behind the user's back.
export GOTOOLCHAIN ?= local

# One way to compile everything: the packages of Kubernetes are many, and each set of flags would compile them once more.
export CGO_ENABLED ?= 0
export GOFLAGS     := -trimpath $(GOFLAGS)

VERSION   ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
TIMESTAMP ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
PLATFORMS ?= linux/$(shell go env GOARCH)
FUZZTIME  ?= 10s
BENCHTIME ?= 1s
BENCH      ?=
BENCHFLAGS ?=

STEP    := hack/step.sh
LDFLAGS := -s -w -X main.version=$(VERSION)
BINARY  := bin/deadletter

# Modules of their own keep what builds and checks the product out of the product's go.mod, and the product out of the
# client's.
MODULES := . client hack/bench hack/controlplane hack/image hack/tools
TESTED  := . client hack/bench hack/controlplane hack/image

# The linter is rebuilt when its pins or the Go version change, and only then.
LINTER := bin/golangci-lint-$(shell cat hack/tools/go.mod hack/tools/go.sum hack/tools/linter/*.go | \
	{ cat; go env GOVERSION; } | sha256sum | cut -c1-16)

##@ General

.PHONY: help
help: ## Show this list.
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@ / { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z][a-z0-9-]*:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: deps
deps: ## Install Postgres, PgBouncer and the workers' languages (Debian, as root or by sudo); download the Go modules.
	@$(STEP) "Postgres and PgBouncer" hack/postgres.sh install
	@$(STEP) "languages of the manual's workers" hack/languages.sh
	@$(STEP) "Go modules" go mod download

.PHONY: check
check: fmt lint lint-api verify test ## Everything a commit must pass; run it before committing.

##@ Code

.PHONY: build
build: ## Build bin/deadletter, a static binary.
	@$(STEP) "build $(BINARY) $(VERSION)" \
		go build -ldflags '$(LDFLAGS)' -o $(BINARY) ./cmd/deadletter

.PHONY: generate
generate: manifests ## Regenerate everything: deepcopy, CRDs, RBAC, references.
	@$(STEP) "deepcopy" go tool controller-gen object paths=./api/...
	@$(STEP) "go generate" go generate ./...

.PHONY: manifests
manifests: ## Regenerate CRDs and RBAC from the types and reconcilers.
	@$(STEP) "custom resource definitions" go tool controller-gen crd paths=./api/... output:crd:dir=config/crd/bases
	@$(STEP) "roles" go tool controller-gen rbac:roleName=deadletter-operator paths=./controllers/... \
		output:rbac:dir=config/rbac

.PHONY: fmt
fmt: $(LINTER) ## Format all Go code (gofumpt, import order).
	@for dir in $(MODULES); do (cd $$dir && $(CURDIR)/$(LINTER) fmt -c $(CURDIR)/.golangci.yml ./...); done

##@ Checks

.PHONY: lint
lint: $(LINTER) ## Run every linter over every module, and the API linter over the types.
	@for dir in $(MODULES); do \
		(cd $$dir && $(CURDIR)/$(STEP) "lint $$dir" $(CURDIR)/$(LINTER) run -c $(CURDIR)/.golangci.yml ./...); \
	done
	@$(MAKE) lint-api

.PHONY: lint-api
lint-api: $(LINTER) ## Run the Kubernetes API linter over the custom resource types.
	@$(STEP) "lint the custom resource types" $(LINTER) run -c .golangci-kal.yml ./api/...

.PHONY: verify
verify: ## Regenerate everything and fail if that changes a file.
	@$(STEP) "generated files and module files are current" hack/verify.sh $(MAKE) generate

$(LINTER):
	@mkdir -p bin && rm -f bin/golangci-lint-*
	@$(STEP) "build the linter (once; a few minutes)" go build -C hack/tools -ldflags \
		"-s -w -X main.version=$$(cd hack/tools && go list -m -f '{{.Version}}' github.com/golangci/golangci-lint/v2)" \
		-o $(CURDIR)/$(LINTER) ./linter

##@ Tests

# Tests meet a real Postgres and a real Kubernetes API; the binaries of the latter are built from Go modules once.
WITH_SERVERS = hack/postgres.sh check pgbouncer; \
	KUBEBUILDER_ASSETS="$${KUBEBUILDER_ASSETS:-$$(go run -C hack/controlplane . assets)}"; \
	export KUBEBUILDER_ASSETS;

.PHONY: test
test: ## Run all tests of all modules.
	@$(WITH_SERVERS) for dir in $(TESTED); do $(STEP) "test $$dir" go test -C $$dir -timeout 20m ./...; done

.PHONY: test-race
test-race: ## Run the product's tests under the race detector (needs a C compiler).
	@$(WITH_SERVERS) for dir in . client; do \
		$(STEP) "test $$dir under the race detector" env CGO_ENABLED=1 go test -C $$dir -race -timeout 40m ./...; \
	done

.PHONY: test-postgres
test-postgres: ## Run the store's tests on other releases of Postgres: PG="16 18" for some (needs npm).
	@hack/postgres-versions.sh $(PG)

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME (10s).
	@hack/fuzz.sh $(FUZZTIME)

.PHONY: bench
bench: ## Measure against peers on this machine: BENCH=P1,P4 for some, BENCHFLAGS=-h for more; under 20 minutes.
	@hack/postgres.sh check
	@$(STEP) "benchmarks $(BENCH)" go run -C hack/bench . -root $(CURDIR) -out $(CURDIR)/build/bench \
		-only "$(BENCH)" $(BENCHFLAGS)

.PHONY: bench-deps
bench-deps: ## Install the peers that come as packages (Debian, as root or by sudo): PgQ, RabbitMQ.
	@$(STEP) "peers" hack/bench/install.sh

.PHONY: bench-store
bench-store: ## Run the store's benchmarks: single statements on a throw-away Postgres, not a load test.
	@$(WITH_SERVERS) $(STEP) "benchmarks of internal/store" \
		go test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) ./internal/store/...

.PHONY: e2e
e2e: ## Run the demo and the reconciler tests afresh: a real Kubernetes API, Postgres and HTTP.
	@$(WITH_SERVERS) $(STEP) "reconcilers" go test -count=1 -timeout 20m ./controllers/...
	@$(MAKE) demo

##@ See it run

.PHONY: demo
demo: ## Show the main job on a real Kubernetes API and Postgres, then clean up.
	@hack/postgres.sh check
	@$(STEP) "demo" go run ./hack/demo

.PHONY: up
up: ## Start what the demo starts and leave it running.
	@hack/postgres.sh check
	@$(STEP) "up" go run ./hack/demo up

.PHONY: down
down: ## Stop what `make up` started.
	@$(STEP) "down" go run ./hack/demo down

##@ Release

.PHONY: image
image: ## Write build/deadletter.tar (docker) and build/deadletter-oci.tar (OCI); needs no container engine.
	@$(STEP) "image $(VERSION) for $(PLATFORMS)" env SOURCE_DATE_EPOCH=$(TIMESTAMP) go run -C hack/image . \
		-source $(CURDIR) -out $(CURDIR)/build -version $(VERSION) -platforms $(PLATFORMS)

.PHONY: clean
clean: ## Remove what was built in the work tree.
	@rm -rf bin build
