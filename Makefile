# SPDX-License-Identifier: Apache-2.0
# `make demo` and `make test` set up what they need; `make help` lists the rest.
SHELL := /bin/bash
GO ?= go
PREFIX ?= /usr/local
FUZZTIME ?= 30s
DIFFTIME ?= 2m
SEED ?= 1000
SOAK ?= 30m
# Root is needed for namespaces, eBPF and installing packages; the build is done as the caller.
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)
VERSION := $(shell git describe --always --dirty 2>/dev/null || echo devel)
export CGO_ENABLED := 0

.DEFAULT_GOAL := help
.PHONY: help build urts sdk install demo test test-full check fuzz fuzz-diff soak deb bench bench-latch esr generate clean go-version

help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

go-version:
	@GO=$(GO) tools/setup/go-version.sh

build: go-version ## build the one binary, bin/holdfast
	@$(GO) build -trimpath -ldflags "-X main.version=$(VERSION)" -o bin/holdfast ./cmd/holdfast

urts: ## build libsgx_urts.so, on which built SGX applications run, into bin/sgx (needs gcc)
	@sdk/urts/build.sh bin/sgx

sdk: ## build the SDK for authors of enclaves into bin/sdk (needs gcc and musl-dev)
	@sdk/build.sh bin/sdk

install: build ## install bin/holdfast to PREFIX/bin (default /usr/local), and libsgx_urts.so where there is gcc
	install -D -m 0755 bin/holdfast $(DESTDIR)$(PREFIX)/bin/holdfast
	@if command -v $${CC:-gcc} >/dev/null; then sdk/urts/build.sh $(DESTDIR)$(PREFIX)/lib/holdfast/sgx && echo "installed $(PREFIX)/lib/holdfast/sgx/libsgx_urts.so"; \
	  else echo "no C compiler here: libsgx_urts.so is not installed"; fi

demo: go-version ## set up, then run the main job on real nginx and curl (needs root or sudo)
	@tools/setup/packages.sh demo
	@$(MAKE) --no-print-directory build
	@bin/holdfast demo $(DEMOFLAGS)

test: go-version ## set up, then run every test that fits in a quarter of an hour (needs root or sudo)
	@tools/setup/packages.sh demo test
	@tools/setup/kernel.sh
	@$(MAKE) --no-print-directory build
	@$(GO) run ./tools/testrun

test-full: go-version ## the rest too: long tests, the race detector everywhere, a minute of fuzzing per target
	@tools/setup/packages.sh demo test
	@tools/setup/kernel.sh
	@$(MAKE) --no-print-directory build
	@$(GO) run ./tools/testrun -full
	@$(MAKE) --no-print-directory fuzz FUZZTIME=60s

check: go-version ## no root, no packages: gofmt, vet, layers, documents, generated files, builds for other systems
	@$(GO) run ./tools/testrun -check

fuzz: go-version ## run every fuzz target for FUZZTIME (default 30s); appends to bench/results/fuzz.csv
	@$(GO) run ./tools/fuzzrun -time $(FUZZTIME) $(FUZZ)

fuzz-diff: go-version ## compare our TPM with swtpm for DIFFTIME (default 2m), from SEED on
	@$(GO) test ./test/tpmdiff -run TestDifferential -v -timeout 0 -diff.sequences 0 -diff.time $(DIFFTIME) -diff.seed $(SEED) -diff.most 50

deb: build ## a Debian package in out/ (needs dpkg-deb; with libsgx_urts.so where there is gcc)
	@packaging/deb.sh bin/holdfast "$(VERSION)" "$$($(GO) env GOARCH | sed 's/^386$$/i386/; s/^arm$$/armhf/')"

soak: build ## half an hour of 10,000 sessions with gates and agents killed (SOAK=2m for less); series in bench/results/soak.csv
	@tools/setup/packages.sh demo test
	@$(GO) test -c -o out/soak.test ./test/soak
	@$(SUDO) env HOLDFAST_BIN=$(CURDIR)/bin/holdfast out/soak.test -test.run '^TestSoak$$' -test.timeout 2h -soak.time $(SOAK) -soak.csv bench/results/soak.csv

bench: build ## quick benchmarks of latch and TPM beside their peers, results in bench/results
	@tools/setup/packages.sh demo test
	@$(SUDO) bin/holdfast bench latch --quick --csv bench/results/latch.csv
	@$(SUDO) bin/holdfast bench tpm --quick --csv bench/results/tpm.csv

bench-latch: build ## goals, other designs, sizes, round-trip times: half an hour on a quiet machine; tables, charts, CSV in bench/results
	@tools/setup/packages.sh demo test
	@for v in goals baselines sizes rtt; do $(SUDO) bin/holdfast bench latch --$$v --csv bench/results/latch-$$v.csv --plot bench/results || exit 1; done

esr: build ## the laboratory: seven designs of attested channels against the relay's adversaries
	@bin/holdfast esr lab $(ESRFLAGS)

generate: go-version ## make the committed generated files again (needs clang; `make check` compares)
	@tools/setup/packages.sh generate
	@$(GO) generate ./...

clean: ## remove what the build made
	rm -rf bin out
