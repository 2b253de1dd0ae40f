#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the SDK into a folder (default bin/sdk): include/, lib/ (libsgx_urts.so, libsgx_trts.a), enclave.mk, samples/. Needs gcc and musl-dev;
# with libmbedtls-dev (2.28) also lib/libsgx_tcrypto.a: cryptography, sealing, checking of reports.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-bin/sdk}
mkdir -p "$out/include" "$out/lib"
"$here/urts/build.sh" "$out/lib"
"$here/trts/build.sh" "$out/lib"
if grep -qE "MBEDTLS_VERSION_MAJOR +2$" "${MBEDTLS_INCLUDE:-/usr/include}/mbedtls/version.h" 2>/dev/null; then
  "$here/tcrypto/build.sh" "$out/lib"
else
  echo "sdk: without libsgx_tcrypto.a, since Mbed TLS 2.28 (libmbedtls-dev) is not here" >&2
fi
cp "$here"/include/* "$out/include/"
cp "$here/enclave.mk" "$out/"
rm -rf "$out/samples"
cp -r "$here/samples" "$out/samples"
