#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds out/holdfast_VERSION_ARCH.deb from bin/holdfast with dpkg-deb.
# Usage: packaging/deb.sh BINARY VERSION ARCH [OUTPUT-FOLDER]
set -euo pipefail
[ $# -ge 3 ] || { echo "usage: $0 BINARY VERSION ARCH [OUTPUT-FOLDER]" >&2; exit 2; }
binary=$(realpath "$1") arch=$3 out=$(realpath -m "${4:-out}")
here=$(cd "$(dirname "$0")" && pwd)
# A bare commit is no version. dpkg wants a digit first, and no "-dirty" that sorts above the release.
version=${2#v}
case $version in [0-9]*.*) ;; *) version="0.0~git.$version" ;; esac
version=${version//-/+}
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
chmod 755 "$root"
install -D -m 755 "$binary" "$root/usr/bin/holdfast"
# For LD_LIBRARY_PATH alone: in a folder of its own it takes no other library's place.
if [ "$arch" = amd64 ] && command -v "${CC:-gcc}" >/dev/null; then "$here/../sdk/urts/build.sh" "$root/usr/lib/holdfast/sgx"; fi
for u in "$here"/systemd/*.service; do install -D -m 644 "$u" "$root/usr/lib/systemd/system/$(basename "$u")"; done
install -D -m 644 "$here/config/logrotate" "$root/etc/logrotate.d/holdfast"
"$binary" man --dir "$root/usr/share/man/man1"
gzip -9n "$root"/usr/share/man/man1/*.1
install -d "$root/usr/share/bash-completion/completions" "$root/usr/share/zsh/vendor-completions" "$root/usr/share/fish/vendor_completions.d"
"$binary" completion bash > "$root/usr/share/bash-completion/completions/holdfast"
"$binary" completion zsh > "$root/usr/share/zsh/vendor-completions/_holdfast"
"$binary" completion fish > "$root/usr/share/fish/vendor_completions.d/holdfast.fish"
for d in README.md LIMITATIONS.md SECURITY.md CHANGELOG.md docs/operations.md; do install -D -m 644 "$here/../$d" "$root/usr/share/doc/holdfast/$(basename "$d")"; done
install -D -m 644 "$here/../LICENSE" "$root/usr/share/doc/holdfast/copyright"
find "$root/usr" -type d -exec chmod 755 {} +
find "$root/usr/share" -type f -exec chmod 644 {} +
install -d "$root/DEBIAN"
size=$(du -sk --exclude=DEBIAN "$root" | cut -f1)
cat > "$root/DEBIAN/control" <<CONTROL
Package: holdfast
Version: $version
Architecture: $arch
Maintainer: The Holdfast authors <holdfast@localhost>
Installed-Size: $size
Section: net
Priority: optional
Suggests: logrotate
Description: release data only to attested TLS sessions
 Holds the TLS sessions of unmodified programs until the receiving key is
 proved to be held by approved software on an approved machine; with a software
 TPM 2.0 that has post-quantum algorithms, and tools for evidence and policy.
CONTROL
echo /etc/logrotate.d/holdfast > "$root/DEBIAN/conffiles"
for s in postinst prerm postrm; do install -m 755 "$here/debian/$s" "$root/DEBIAN/$s"; done
(cd "$root" && find usr etc -type f -print0 | sort -z | xargs -0 md5sum) > "$root/DEBIAN/md5sums"
mkdir -p "$out"
dpkg-deb --root-owner-group --build "$root" "$out/holdfast_${version}_${arch}.deb" >/dev/null
echo "$out/holdfast_${version}_${arch}.deb"
