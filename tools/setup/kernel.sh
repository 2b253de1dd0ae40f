#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Unpacks the distribution's own kernel package for test machines into /var/cache/holdfast/kernel/RELEASE. It is
# not installed: the machine's boot loader never hears of it. Quiet when one is there. `kernel.sh --update` takes a newer one.
set -euo pipefail
cache=/var/cache/holdfast/kernel
[ "$(uname -m)" = x86_64 ] || exit 0 # test machines are x86-64 so far
if [ "${1-}" != --update ] && compgen -G "$cache/*/boot/vmlinuz-*" >/dev/null; then exit 0; fi
command -v apt-get >/dev/null 2>&1 || { echo "kernel.sh: this script fetches a kernel by apt-get (Debian, Ubuntu); tests in virtual machines are skipped without" >&2; exit 0; }
if [ "$(id -u)" != 0 ]; then
  command -v sudo >/dev/null 2>&1 || { echo "kernel.sh: unpacking to $cache needs root, and there is no sudo: run this as root" >&2; exit 3; }
  exec sudo -- "$0" "$@"
fi

packages() { # the image, and the modules where they are apart (Ubuntu)
  local meta image
  for meta in linux-image-cloud-amd64 linux-image-virtual linux-image-amd64; do
    image=$(apt-cache depends --important "$meta" 2>/dev/null | sed -n 's/^ *Depends: \(linux-image-[0-9][^ ]*\)$/\1/p' | head -n 1)
    [ -n "$image" ] || continue
    echo "$image"
    apt-cache depends --important "$image" | sed -n 's/^ *Depends: \(linux-modules-[0-9][^ ]*\)$/\1/p'
    return
  done
  return 1
}
list=$(packages) || { apt-get update -qq; list=$(packages) || { echo "kernel.sh: this release has no linux-image-cloud-amd64, linux-image-virtual or linux-image-amd64" >&2; exit 3; }; }

mkdir -p "$cache"
work=$(mktemp -d "$cache/.new.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
echo "Unpacking $(echo $list) for test machines"
fetch() { (cd "$work" && apt-get download -qq -o APT::Sandbox::User=root $list) >"$work/log" 2>&1; }
fetch || { apt-get update -qq && fetch; } || { cat "$work/log" >&2; echo "kernel.sh: apt-get download $list failed (output above)" >&2; exit 1; }
for deb in "$work"/*.deb; do dpkg-deb -x "$deb" "$work/root"; done
[ -d "$work/root/lib/modules" ] || [ ! -d "$work/root/usr/lib/modules" ] || { mkdir -p "$work/root/lib" && mv "$work/root/usr/lib/modules" "$work/root/lib/"; }
release=$(basename "$(compgen -G "$work/root/lib/modules/*" | head -n 1)")
[ -e "$work/root/boot/vmlinuz-$release" ] || { echo "kernel.sh: $list has no boot/vmlinuz-$release" >&2; exit 1; }
chmod -R go+rX,go-w "$work/root"
rm -rf "${cache:?}/$release"
mv "$work/root" "$cache/$release"
