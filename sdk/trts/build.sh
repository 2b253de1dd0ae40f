#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds libsgx_trts.a, the trusted runtime, into a folder (default bin/sgx) with $CC (default gcc). Needs musl-dev for its headers and C library.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=$(mkdir -p "${1:-bin/sgx}" && cd "${1:-bin/sgx}" && pwd)
musl=${MUSL_INCLUDE:-/usr/include/$(uname -m)-linux-musl}
[ -f "$musl/stdio.h" ] || { echo "sdk/trts: the C library musl is not in $musl: install musl-dev, or set MUSL_INCLUDE" >&2; exit 3; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
flags=(-std=gnu11 -O2 -g -fPIC -ffreestanding -fno-builtin-malloc -fvisibility=hidden -fno-stack-protector -fcf-protection=none -fno-asynchronous-unwind-tables
  -Wall -Wextra -Werror -nostdinc -isystem "$musl" -isystem "$(${CC:-gcc} -print-file-name=include)" -I "$here/../include")
for f in "$here"/*.c "$here"/*.S; do
  ${CC:-gcc} "${flags[@]}" -c -o "$work/$(basename "$f").o" "$f"
done
rm -f "$out/libsgx_trts.a"
ar rcs "$out/libsgx_trts.a" "$work"/*.o
