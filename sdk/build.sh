#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the SDK into a folder (default bin/sdk): include/, lib/ (libsgx_urts.so, libsgx_trts.a), enclave.mk, samples/. Needs gcc and musl-dev.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-bin/sdk}
mkdir -p "$out/include" "$out/lib"
"$here/urts/build.sh" "$out/lib"
"$here/trts/build.sh" "$out/lib"
cp "$here"/include/* "$out/include/"
cp "$here/enclave.mk" "$out/"
rm -rf "$out/samples"
cp -r "$here/samples" "$out/samples"
