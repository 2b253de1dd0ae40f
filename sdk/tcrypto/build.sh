#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds libsgx_tcrypto.a (cryptography, sealing, checking of reports) into a folder, with $CC (default gcc). Needs binutils, musl-dev and libmbedtls-dev.
# Also libsgx_mbedcrypto.a: Mbed TLS's own library, in which what reads files and prints is led to nofiles.c, and the question for AES instructions not to CPUID.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=$(mkdir -p "${1:-bin/sgx}" && cd "${1:-bin/sgx}" && pwd)
musl=${MUSL_INCLUDE:-/usr/include/$(uname -m)-linux-musl}
mbedtls=${MBEDTLS_INCLUDE:-/usr/include}
[ -f "$mbedtls/mbedtls/gcm.h" ] || { echo "sdk/tcrypto: Mbed TLS is not in $mbedtls: install libmbedtls-dev, or set MBEDTLS_INCLUDE" >&2; exit 3; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ln -s "$mbedtls/mbedtls" "$work/mbedtls" # not the system's C library beside it
[ ! -d "$mbedtls/psa" ] || ln -s "$mbedtls/psa" "$work/psa"
flags=(-std=gnu11 -O2 -g -fPIC -ffreestanding -fvisibility=hidden -fstack-protector-strong -fcf-protection=none -fno-asynchronous-unwind-tables
  -Wall -Wextra -Werror -nostdinc -isystem "$musl" -isystem "$(${CC:-gcc} -print-file-name=include)" -isystem "$work" -I "$here/../include")
for f in "$here"/*.c; do
  ${CC:-gcc} "${flags[@]}" -c -o "$work/$(basename "$f").o" "$f"
done
archive=${MBEDCRYPTO:-/usr/lib/$(uname -m)-linux-gnu/libmbedcrypto.a}
[ -f "$archive" ] || { echo "sdk/tcrypto: no $archive: install libmbedtls-dev, or set MBEDCRYPTO" >&2; exit 3; }
for f in fopen fclose fread fwrite ferror feof fgets fputs fseek ftell setbuf puts putchar printf __printf_chk gmtime_r; do echo "$f holdfast_no_$f"; done >"$work/names"
echo "mbedtls_aesni_has_support holdfast_aesni" >>"$work/names"
objcopy --redefine-syms="$work/names" "$archive" "$work/renamed.a"
objcopy --weaken-symbol=holdfast_aesni "$work/renamed.a" "$work/weak.a" # ours, in tcrypto.c, goes before it
rm -f "$out/libsgx_tcrypto.a" "$out/libsgx_mbedcrypto.a"
cp "$work/weak.a" "$out/libsgx_mbedcrypto.a"
ar rcs "$out/libsgx_tcrypto.a" "$work"/*.o
