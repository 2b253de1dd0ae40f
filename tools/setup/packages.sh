#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian or Ubuntu packages that a group of targets needs, and only those that are missing:
#   packages.sh demo|test|generate ...
# Quiet when there is nothing to do. No service is started, and none that runs is touched.
set -euo pipefail

# what must be there: a command, or a file pattern after "file:"   the package (alternatives by |, newest name first)
needs() {
  case $1 in
  demo) cat <<'T'
nginx      nginx
curl       curl
openssl    openssl
ip         iproute2
T
    ;;
  test) cat <<'T'
tpm2_quote tpm2-tools
swtpm      swtpm
gnutls-cli gnutls-bin
python3    python3
nft        nftables
conntrack  conntrack
lighttpd   lighttpd
node       nodejs
spin       spin
haproxy    haproxy
nats-server nats-server
qemu-system-x86_64  qemu-system-x86
qemu-img   qemu-utils
qemu-arm-static     qemu-user-static
qemu-riscv64-static qemu-user-static
file:/usr/share/OVMF/OVMF_CODE*.fd  ovmf
gcc        gcc
file:/usr/include/stdio.h  libc6-dev
file:/usr/lib/*-linux-musl/libc.a  musl-dev
file:/usr/lib/*/libmbedcrypto.a  libmbedtls-dev
file:/usr/lib/*/libtss2-tcti-mssim.so.0  libtss2-tcti-mssim0t64|libtss2-tcti-mssim0|libtss2-tctildr0
file:/usr/lib/*/libtss2-tcti-swtpm.so.0  libtss2-tcti-swtpm0t64|libtss2-tcti-swtpm0|libtss2-tctildr0
file:/etc/ssl/certs/ca-certificates.crt  ca-certificates
T
    ;;
  generate) cat <<'T'
clang-14   clang-14
llvm-strip-14  llvm-14
file:/usr/include/bpf/bpf_helpers.h  libbpf-dev
T
    ;;
  *) echo "packages.sh: unknown group '$1', expected demo, test or generate" >&2; exit 2 ;;
  esac
}

present() {
  case $1 in
  file:*) compgen -G "${1#file:}" >/dev/null ;;
  *) PATH=$PATH:/usr/sbin:/sbin command -v "$1" >/dev/null 2>&1 ;;
  esac
}

[ $# -gt 0 ] || { echo "use: packages.sh demo|test|generate ..." >&2; exit 2; }
missing=()
for group in "$@"; do
  list=$(needs "$group")
  while read -r what package; do
    present "$what" || missing+=("$package")
  done <<<"$list"
done
[ ${#missing[@]} -gt 0 ] || exit 0

if ! command -v apt-get >/dev/null 2>&1; then
  echo "packages.sh: missing here: ${missing[*]}. This script installs by apt-get (Debian, Ubuntu); please install them by your system's means." >&2
  exit 3
fi
if [ "$(id -u)" != 0 ]; then
  command -v sudo >/dev/null 2>&1 || { echo "packages.sh: missing here: ${missing[*]}. Installing needs root, and there is no sudo: run this as root." >&2; exit 3; }
  echo "Installing needs root: using sudo for ${missing[*]}"
  exec sudo -- "$0" "$@"
fi

known() { apt-cache show --no-all-versions "$1" >/dev/null 2>&1; }
choose() { # the first alternative that this release knows
  local p
  for p in ${1//|/ }; do known "$p" && { echo "$p"; return; }; done
  return 1
}
chosen=()
pick() {
  local m c
  chosen=()
  for m in "${missing[@]}"; do
    c=$(choose "$m") || return 1
    case " ${chosen[*]-} " in *" $c "*) ;; *) chosen+=("$c") ;; esac
  done
}

log=$(mktemp)
units=()    # services that we mask while we install
policy=/usr/sbin/policy-rc.d
mark="made by holdfast's set-up for the time of one installation"
cleanup() {
  grep -qs "$mark" "$policy" && rm -f "$policy"
  for u in ${units[@]+"${units[@]}"}; do systemctl unmask --runtime --quiet "$u" 2>/dev/null || true; done
  rm -f "$log"
}
trap cleanup EXIT
trap 'exit 130' INT TERM
run() { # output only if it fails
  "$@" >"$log" 2>&1 </dev/null || { cat "$log" >&2; echo "packages.sh: '$*' failed (output above)" >&2; exit 1; }
}

export DEBIAN_FRONTEND=noninteractive NEEDRESTART_MODE=l NEEDRESTART_SUSPEND=1
pick || { run apt-get update -qq; pick; } || { echo "packages.sh: this release has no package of ${missing[*]}" >&2; exit 3; }
echo "Installing ${chosen[*]}"

# A package must not start its service now (policy-rc.d) nor at the next boot (disable), but a service
# that the machine already had is none of our business.
fresh=()
for p in "${chosen[@]}"; do
  dpkg -s "$p" >/dev/null 2>&1 || fresh+=("$p")
done
if [ ! -e "$policy" ] || grep -qs "$mark" "$policy"; then
  printf '#!/bin/sh\n# %s\nexit 101\n' "$mark" >"$policy"
  chmod 0755 "$policy"
elif [ -d /run/systemd/system ]; then
  for p in ${fresh[@]+"${fresh[@]}"}; do
    systemctl mask --runtime --quiet "$p.service" 2>/dev/null && units+=("$p.service") || true
  done
fi

apt_install() { apt-get install -y -qq --no-install-recommends "${chosen[@]}" >"$log" 2>&1 </dev/null; }
if ! apt_install; then
  run apt-get update -qq # the lists may be older than the mirror
  apt_install || { cat "$log" >&2; echo "packages.sh: apt-get install ${chosen[*]} failed (output above)" >&2; exit 1; }
fi
if [ -d /run/systemd/system ]; then
  for p in ${fresh[@]+"${fresh[@]}"}; do
    systemctl disable --quiet "$p.service" >/dev/null 2>&1 || true
  done
fi

for group in "$@"; do
  list=$(needs "$group")
  while read -r what package; do
    present "$what" || { echo "packages.sh: $package is installed, but '$what' is still not there" >&2; exit 1; }
  done <<<"$list"
done
