#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Says in plain words what to do when Go is missing or too old; prints nothing when all is well.
set -euo pipefail
cd "$(dirname "$0")/../.."
go=${GO:-go}
want=$(awk '$1 == "go" {print $2; exit}' go.mod)

advice() {
  cat >&2 <<TXT
Holdfast needs Go $want. $1
  Get it from https://go.dev/dl/ (one archive, no installer):
    curl -LO https://go.dev/dl/go$want.linux-amd64.tar.gz     # arm64: go$want.linux-arm64.tar.gz
    sudo rm -rf /usr/local/go && sudo tar -C /usr/local -xzf go$want.linux-amd64.tar.gz
    export PATH=/usr/local/go/bin:\$PATH
  Or install any Go from 1.21 on: it fetches the right toolchain by itself.
  Ubuntu 24.04: apt install golang-go.  Debian 12: apt install -t bookworm-backports golang-go.
TXT
  exit 3
}

command -v "$go" >/dev/null 2>&1 || advice "The command '$go' was not found."
# Outside the module, so that an old go does not stumble over go.mod; local, so that nothing is fetched yet.
have=$(cd / && GOTOOLCHAIN=local "$go" env GOVERSION 2>/dev/null | sed 's/^go//; s/[^0-9.].*//')
[ -n "$have" ] || advice "The command '$go' here does not tell its version (older than 1.16?)."
older() { [ "$1" != "$2" ] && [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]; }
older "$have" 1.21 && advice "This machine has Go $have, which is too old to fetch a newer one by itself."
if older "$have" "$want" && [ "$("$go" env GOTOOLCHAIN 2>/dev/null)" = local ]; then
  advice "This machine has Go $have and GOTOOLCHAIN=local forbids it to fetch a newer one (try GOTOOLCHAIN=auto)."
fi
exit 0
