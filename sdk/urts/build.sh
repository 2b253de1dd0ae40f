#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds libsgx_urts.so.2 and the link libsgx_urts.so into a folder (default bin/sgx) with $CC (default gcc).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-bin/sgx}
mkdir -p "$out"
${CC:-gcc} -std=c11 -D_GNU_SOURCE -O2 -g -fPIC -fvisibility=hidden -fstack-protector-strong -Wall -Wextra -Werror -shared \
  -Wl,-soname,libsgx_urts.so.2 -Wl,--version-script="$here/urts.lds" -Wl,-z,relro,-z,now,-z,noexecstack,-z,defs -Wl,--build-id=sha1 \
  -o "$out/libsgx_urts.so.2" "$here"/*.c -lpthread
ln -sf libsgx_urts.so.2 "$out/libsgx_urts.so"
