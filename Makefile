# SPDX-License-Identifier: Apache-2.0
# `make demo` and `make test` set up what they need; `make help` lists the rest.
SHELL := /bin/bash
GO ?= go
VERSION := $(shell git describe --always --dirty 2>/dev/null || echo devel)
export CGO_ENABLED := 0

.DEFAULT_GOAL := help
.PHONY: help build
help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build the one binary, bin/holdfast
	$(GO) build -trimpath -ldflags "-X main.version=$(VERSION)" -o bin/holdfast ./cmd/holdfast
