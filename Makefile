# Everything a contributor does. A fresh machine needs Go and make only; targets fetch or name all else.
SHELL := /bin/sh
.DEFAULT_GOAL := help
GO ?= go
FUZZTIME ?= 60s
GOLANGCI := v2.15.0
GOVULNCHECK := v1.6.0
ACTIONLINT := v1.7.12
REDOCLY := @redocly/cli@2.77.0
SPECTRAL := @stoplight/spectral-cli@6.16.3

TOOLS := $(CURDIR)/bin/tools
WITHPOSTGRES := $(GO) run ./internal/database/databasetest/withpostgres
VERSION = # of a release, on the command line
# The commit, by git, because GOFLAGS=-buildvcs=false is set on many machines.
COMMIT = $(shell git describe --always --abbrev=12 --dirty=.dirty --exclude='*' 2>/dev/null)
TELEMETRY = github.com/supplyhub/supplyhub/internal/telemetry
LDFLAGS = -s -w $(if $(VERSION),-X $(TELEMETRY).version=$(VERSION)) $(if $(COMMIT),-X $(TELEMETRY).commit=$(COMMIT))
# gin's MessagePack codec, which is not used here, is 6 MB of a binary and takes longer to compile than the NATS server.
# The compiler collects its garbage less often: a seventh less of its CPU. SQLite takes it 1.0 GB instead of 0.8.
export GOFLAGS := $(shell $(GO) env GOFLAGS 2>/dev/null) -tags=nomsgpack '-toolexec=env GOGC=400 GOMEMLIMIT=1500MiB'
BUILD = CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/
# One line that counts what go build -v names, which is in no terminal's log; all else is printed as it is.
PROGRESS = awk -v tty="$$([ -t 2 ] && echo 1)" '$$1 == "exit" && NF == 2 {code = $$2; next} \
	NF == 1 || /^go: downloading/ {n++; if (tty) {printf "\r%d packages", n > "/dev/stderr"}; next} {print > "/dev/stderr"} \
	END {if (n) {printf "\r%d package%s compiled.\n", n, n == 1 ? "" : "s" > "/dev/stderr"}; exit code}'
# Those that take longest begin first.
UNIT = ./internal/sending ./internal/queue ./internal/deliveries ./internal/materials ./internal/tracker $$($(GO) list ./... | grep -v '/internal/acceptance' | tr '\n' ' ')
# Tests that wait leave the processors to others. Each of acceptance runs several processes: with more of them at once each
# only waits longer.
UNITSATONCE = 8
ATONCE = 5
# Test binaries are linked each time: without what only debuggers read it takes two thirds of the time.
LEAN = -ldflags=-w
# SQLite is C translated to Go: with each of its accesses watched and each pointer of its driver checked, its tests took
# half of the time. database/sql and sync, which order what our code does with it, stay watched. Conversions of unsafe
# pointers are not checked: there are none here. The driver itself is watched: it uses generic code of sync, of which the
# linker would take its unwatched copy for everybody.
UNWATCHED = -gcflags=all=-d=checkptr=0 -gcflags=modernc.org/sqlite/lib=-race=false -gcflags=modernc.org/libc=-race=false
# The race detector needs cgo and a C compiler; without them the tests still run.
RACE = $$(if [ "$$($(GO) env CGO_ENABLED)" = 1 ] && command -v "$$($(GO) env CC)" >/dev/null; then echo -race $(UNWATCHED); else echo 'no cgo or no C compiler: running without the race detector' >&2; fi)

.PHONY: help run demo build release test test-platforms test-versions test-deployments test-citus race chaos sweep fuzz lint-openapi bench bench-neighbours bench-receivers bench-size bench-tracker bench-turns check schema migrate-new release-schema check-clients fuzz-api clean

help: ## show this list
	@awk -F ':.*## ' '/^##@ / {printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ Use
# Not by `go run`, which fails when it is interrupted although the service ended well.
run: ## serve on http://localhost:8080 with a demo supplier; everything is kept in ./data
	@echo 'Compiling bin/api: about three minutes the first time, seconds later.'
	@{ $(BUILD) -v ./cmd/api 2>&1; echo "exit $$?"; } | $(PROGRESS)
	@echo 'Starting it; everything is kept in ./data.'
	@bin/api serve --demo

demo: ## watch a receiver fail and recover in ten seconds, then look around until Ctrl-C
	@{ $(BUILD) -v ./cmd/api 2>&1; echo "exit $$?"; } | $(PROGRESS)
	@deployments/demo/demo.sh bin/api --stay

build: ## build the static binaries bin/api and bin/worker
	$(BUILD) ./cmd/api ./cmd/worker

# Named as `uname` names a machine, so that one line fetches the right one. The guides' lines work in the archive's directory.
PLATFORMS := linux/amd64/Linux_x86_64 linux/arm64/Linux_aarch64 darwin/amd64/Darwin_x86_64 darwin/arm64/Darwin_arm64
release: ## build the archives of a release for Linux and macOS, with their digests: make release VERSION=v0.1.0
	@rm -rf bin/release; mkdir -p bin/release; set -e; for platform in $(PLATFORMS); do \
		arch=$${platform#*/}; archive=bin/release/supplyhub_$${platform##*/}.tar.gz; \
		GOOS=$${platform%%/*} GOARCH=$${arch%/*} $(BUILD)release/supplyhub/bin/ ./cmd/api ./cmd/worker; \
		git archive HEAD ':(glob)*.md' deployments | tar -x -C bin/release/supplyhub; \
		tar -C bin/release --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$$(git log -1 --format=%ct)" -cf - supplyhub | gzip -n > $$archive; \
		rm -r bin/release/supplyhub; \
	done; cd bin/release; sha256sum *.tar.gz | tee SHA256SUMS

##@ Develop
test: ## run the tests on both stacks; PKG=./internal/products runs one package's, RUN=TestSync some of them
	@for runtime in python3 node npm; do command -v $$runtime >/dev/null || echo "no $$runtime: TestSamples skips its samples" >&2; done
ifdef PKG
	@$(WITHPOSTGRES) $(GO) test -count=1 $(if $(RUN),-run '$(RUN)') $(PKG)
else
	@$(WITHPOSTGRES) sh -c "status=0; \
		$(GO) test -timeout 60m -shuffle=on -parallel $(ATONCE) $(LEAN) ./internal/acceptance/... & acceptance=\$$!; \
		$(GO) test -timeout 60m -shuffle=on -parallel $(UNITSATONCE) $(LEAN) $(RACE) $(UNIT) || status=1; \
		$(GO) test -C deployments/checks -shuffle=on ./... || status=1; \
		wait \$$acceptance || status=1; \
		exit \$$status"
endif

test-platforms: ## test where it runs: PgBouncer, a standby and failovers, small servers, NATS' certificates, upgrades, browsers
	@SUPPLYHUB_TEST_CHAOS=1 SUPPLYHUB_TEST_BROWSER=1 $(WITHPOSTGRES) sh -c "status=0; \
		$(GO) test -count=1 ./internal/database ./internal/queue ./internal/config || status=1; \
		$(GO) test -count=1 -timeout 45m -parallel $(ATONCE) -run 'TestPooler|TestFailover|TestSchema|TestService|TestUpgrade|TestSmallServer|TestQueue|TestOutage|_in_a_browser' ./internal/acceptance || status=1; \
		exit \$$status"

test-versions: ## test every version of PostgreSQL and NATS that is promised, and the newest (POSTGRES='14.23.0-beta.17' NATS= for some)
	@sh deployments/checks/versions.sh

test-deployments: ## run compose under load, the units and the chart, for real and by the guides' lines (root on Debian; 30 minutes the first time)
	@sh deployments/checks/machine.sh $(GO) test -count=1 -v -timeout 60m ./deployments/running

test-citus: ## test the whole service over HTTP on a coordinator and two workers of Citus, where that extension is installed
	@$(WITHPOSTGRES) -citus $(GO) test -count=1 -timeout 15m -run 'TestService/production|TestSpread' ./internal/acceptance ./internal/database ./internal/materials/work

race: ## run the tests of this module with the race detector, the binaries under test included (slow)
	@SUPPLYHUB_TEST_RACE=1 $(WITHPOSTGRES) env GOFLAGS="$$($(GO) env GOFLAGS) $(UNWATCHED)" $(GO) test -race -shuffle=on -timeout 60m ./...

chaos: ## break every part and connection under load, in turn, and account for every request (about 40 minutes)
	@SUPPLYHUB_TEST_CHAOS=1 $(WITHPOSTGRES) $(GO) test -count=1 -v -timeout 90m -run '^Test(Chaos|Failover|FullDisk)' ./internal/acceptance

sweep: ## lose the database's connection before and after each kind of COMMIT, 20 times each, under load (12 minutes or more)
	@SUPPLYHUB_TEST_SWEEP=1 $(WITHPOSTGRES) $(GO) test -count=1 -v -timeout 90m -run '^TestSweep' ./internal/acceptance

# Until Go 1.27 the end of FUZZTIME may look like a failure that no input caused (golang/go#75804): that target runs once more.
# Minimizing what is interesting for the default minute stops a target's workers: FuzzEvent kept 2 new inputs in 25 s, with a second 96.
fuzz: ## run each fuzz target for FUZZTIME (60s); new inputs stay in .fuzz
	@set -e; mkdir -p .fuzz; for file in $$(grep -rl '^func Fuzz' --include='*_test.go' .); do \
		dir=$$(dirname "$$file"); for target in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$$file"); do \
			echo "$$target in $$dir"; touch .fuzz/began; \
			fuzz() { $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1s "$$dir" -args -test.fuzzcachedir="$(CURDIR)/.fuzz/$$dir/$$target"; }; \
			fuzz || { [ -z "$$(find "$$dir" -path '*/testdata/fuzz/*' -newer .fuzz/began)" ] && echo "$$target fails on no input: once more" && fuzz; } || exit 1; \
		done; \
	done

fuzz-api: ## make 50,000 calls by the OpenAPI document on each stack, valid and hostile ones (CALLS=50000; SUPPLYHUB_TEST_SEED)
	@SUPPLYHUB_TEST_CALLS=$(or $(CALLS),50000) $(WITHPOSTGRES) $(GO) test -count=1 -v -timeout 60m -run '^TestFuzzAPI$$' ./internal/acceptance

check: $(TOOLS)/golangci-lint-$(GOLANGCI) $(TOOLS)/govulncheck-$(GOVULNCHECK) $(TOOLS)/actionlint-$(ACTIONLINT) lint-openapi check-clients ## format, vet, lint, the OpenAPI document and its clients, alert rules, known vulnerabilities, and whether both engines have the schema that is written down
	@unformatted=$$(gofmt -l cmd internal pkg deployments); [ -z "$$unformatted" ] || { echo "not formatted by gofmt:"; echo "$$unformatted"; exit 1; }
	$(GO) vet ./...
	$(GO) vet -C deployments/checks ./...
	$(GO) vet -C deployments/bench/river .
	$(WITHPOSTGRES) $(GO) test -count=1 -run '^TestSchema_is_what' ./internal/database
	$(TOOLS)/actionlint-$(ACTIONLINT) .github/workflows/*.yaml
	$(GO) -C deployments/checks tool promtool check rules ../prometheus/alerts.yaml
	$(GO) -C deployments/checks tool promtool check config ../prometheus/prometheus.yaml
	$(GO) -C deployments/checks tool promtool test rules ../prometheus/alerts_test.yaml
	$(TOOLS)/golangci-lint-$(GOLANGCI) run -c deployments/lint/golangci.yml ./...
	@status=0; out=$$($(TOOLS)/govulncheck-$(GOVULNCHECK) ./... 2>&1) || status=$$?; \
	case "$$status $$out" in \
		0*) echo "govulncheck: no known vulnerability is called" ;; \
		1*vuln.go.dev*) echo "govulncheck: vuln.go.dev is not reachable from here, vulnerabilities were NOT checked" ;; \
		*) echo "$$out"; exit 1 ;; \
	esac

# Linters are built by the Go of this machine into bin/tools, so that go.mod stays the product's own.
$(TOOLS)/golangci-lint-$(GOLANGCI):
	GOFLAGS= GOBIN=$(TOOLS) $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI)
	@mv $(TOOLS)/golangci-lint $@

$(TOOLS)/govulncheck-$(GOVULNCHECK):
	GOFLAGS= GOBIN=$(TOOLS) $(GO) install golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK)
	@mv $(TOOLS)/govulncheck $@

$(TOOLS)/actionlint-$(ACTIONLINT):
	GOFLAGS= GOBIN=$(TOOLS) $(GO) install github.com/rhysd/actionlint/cmd/actionlint@$(ACTIONLINT)
	@mv $(TOOLS)/actionlint $@

# The generators are pinned in the module of the check, and by a package-lock. Their clients are in bin/clients, a module and
# a package of their own, so that nothing of theirs is the product's. 32 bits are compiled only: not every machine runs them.
CLIENTS := deployments/checks/clients
DOCUMENT := $(CURDIR)/internal/httpapi/openapi.yaml
check-clients: ## generate clients of the OpenAPI document by five generators and have each walk the story against the service
	@rm -rf bin/clients; mkdir -p bin/clients/oapi bin/clients/ogen bin/clients/typescript
	@printf 'module generated.invalid/clients\n\ngo 1.26.0\n' > bin/clients/go.mod
	$(GO) -C $(CLIENTS) tool oapi-codegen -config oapi-codegen.yaml -o $(CURDIR)/bin/clients/oapi/oapi.go $(DOCUMENT)
	$(GO) -C $(CLIENTS) tool ogen -loglevel error -config ogen.yaml -target $(CURDIR)/bin/clients/ogen -package ogen $(DOCUMENT)
	GOARCH=386 CGO_ENABLED=0 $(GO) -C $(CLIENTS) vet .
	$(GO) build -o bin/clients/api ./cmd/api
	@cp $(CLIENTS)/typescript/* bin/clients/typescript; \
	if ! command -v npx >/dev/null; then echo "no npx: the clients in TypeScript were NOT checked" >&2; \
	elif ! npm view openapi-fetch version >/dev/null 2>&1; then \
		echo "the npm registry is not reachable from here: the clients in TypeScript were NOT checked" >&2; \
	else \
		cd bin/clients/typescript && npm ci --ignore-scripts --no-audit --no-fund && \
		npx openapi-typescript $(DOCUMENT) -o generated/openapi-typescript.ts && \
		npx openapi-ts -i $(DOCUMENT) -o generated/hey-api -c @hey-api/client-fetch && \
		npx swagger-typescript-api generate -p $(DOCUMENT) -o generated -n swagger-typescript-api.ts && \
		npx tsc; \
	fi
	$(GO) test -C $(CLIENTS) -count=1 ./...

# npx runs the pinned linters without installing anything into the project. Warnings fail, of either one.
lint-openapi: ## lint the OpenAPI document by two linters (needs npm)
	@if ! command -v npx >/dev/null; then echo "no npx: the OpenAPI document was NOT linted" >&2; \
	elif ! npx --yes $(REDOCLY) --version >/dev/null 2>&1 || ! npx --yes $(SPECTRAL) --version >/dev/null 2>&1; then \
		echo "the npm registry is not reachable from here: the OpenAPI document was NOT linted" >&2; \
	else \
		npx --yes $(REDOCLY) lint --extends=recommended-strict internal/httpapi/openapi.yaml && \
		npx --yes $(SPECTRAL) lint --fail-severity=hint -r deployments/lint/spectral.yaml internal/httpapi/openapi.yaml; \
	fi

# A migrated database is never out of date, and the written schema has the reasons: `make check` compares their names.
schema: ## print the schema of a migrated database: PostgreSQL's by pg_dump, SQLite's as it keeps it
	@mkdir -p bin/schema; SUPPLYHUB_TEST_SCHEMA="$(CURDIR)/bin/schema" $(WITHPOSTGRES) $(GO) test -count=1 -run '^TestSchema_is_what' ./internal/database >&2
	@grep -hv '^--\|^SET \|^SELECT pg_catalog\|^\\\|^$$' bin/schema/postgres.sql bin/schema/sqlite.sql

migrate-new: ## make the next migration of both engines: make migrate-new NAME=add_colour
	@case "$(NAME)" in ''|*[!a-z0-9_]*) echo "usage: make migrate-new NAME=add_colour (a-z, 0-9 and _)"; exit 2 ;; esac; \
	last=$$(ls internal/database/migrations/postgres internal/database/migrations/sqlite | sed -n 's/^0*\([0-9][0-9]*\)_.*\.sql$$/\1/p' | sort -n | tail -1); \
	next=$$(printf '%04d' $$(($${last:-0} + 1))); \
	for engine in postgres sqlite; do \
		file=internal/database/migrations/$$engine/$${next}_$(NAME).sql; \
		printf -- '-- +goose Up\n\n-- +goose Down\n' > "$$file" && echo "$$file"; \
	done

release-schema: ## note the migrations of a release, which are never edited from then on: make release-schema VERSION=0.1.0
	@case "$(VERSION)" in [0-9]*.[0-9]*.[0-9]*) ;; *) echo "usage: make release-schema VERSION=0.1.0"; exit 2 ;; esac; \
	cd internal/database/migrations; for file in postgres/*.sql sqlite/*.sql; do \
		grep -q " $$file$$" ../testdata/released.txt || \
			echo "$(VERSION) $$({ sha256sum 2>/dev/null || shasum -a 256; } < $$file | cut -c1-64) $$file" >> ../testdata/released.txt; \
	done; tail -n +2 ../testdata/released.txt

clean: ## remove what the build made; ./data stays
	rm -rf bin coverage.out

##@ Measure
bench: ## measure the whole service in turns with one on River that does the same work (about 5 minutes)
	$(WITHPOSTGRES) -durable $(GO) run ./internal/bench

bench-neighbours: ## measure a healthy supplier next to slow, failing and dead receivers (about 7 minutes)
	$(WITHPOSTGRES) -durable $(GO) run ./internal/bench neighbours

bench-receivers: ## measure 1 to 8 workers, and many receivers of which some are dead or slow (about 12 minutes; RECEIVERS=10000 PARTS='scale many')
	$(WITHPOSTGRES) -durable $(GO) run ./internal/bench receivers $(PARTS)

bench-size: ## measure lists, intake, reads and dropping a day over 10 million stored requests (25 GB of disk; SIZE_REQUESTS=1000000)
	$(WITHPOSTGRES) -durable $(GO) run ./internal/bench size

bench-tracker: ## measure the tracker listings over 5 million records (about 5 minutes)
	$(WITHPOSTGRES) -durable $(GO) run ./internal/bench tracker

bench-turns: ## compare this tree with the checkouts in OTHER, burst by burst (ROUNDS=6; AT_ONCE=1: at the same moments; OTHER_ENV='NAME=value'; OTHER_WORKERS='2 4')
	$(WITHPOSTGRES) -durable $(GO) run ./internal/bench turns
