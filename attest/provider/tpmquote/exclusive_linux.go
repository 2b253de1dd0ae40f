// SPDX-License-Identifier: Apache-2.0

package tpmquote

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// CheckExclusive says why strangers on this machine can reach the TPM named by
// spec (inproc:DIR, swtpm:unix:PATH, swtpm:HOST:PORT, mssim:HOST:PORT or
// device:PATH), or nil. Whoever reaches a TPM can extend its PCRs, wear it out
// and try to use its keys, so an agent refuses such a report device; the
// attestation key's secret alone is the second line, not the first.
//
// A folder or a socket must belong to this user or root and be open to its
// owner only. A device may also be open to its group, as kernels make it
// (group tss). Anybody on the machine can connect to a TCP port.
func CheckExclusive(spec string) error {
	kind, rest, ok := strings.Cut(spec, ":")
	if !ok || rest == "" {
		return fmt.Errorf("TPM %q: expected inproc:DIR, mssim:HOST:PORT, swtpm:ADDR or device:PATH", spec)
	}
	switch kind {
	case "inproc":
		return checkOwner(spec, rest, unix.S_IFDIR, 0o077)
	case "device":
		return checkOwner(spec, rest, unix.S_IFCHR, 0o007)
	case "swtpm":
		if path, ok := strings.CutPrefix(rest, "unix:"); ok {
			if err := checkOwner(spec, path, unix.S_IFSOCK, 0o077); err != nil {
				return err
			}
			return checkFolder(spec, path)
		}
		fallthrough
	case "mssim":
		return fmt.Errorf("report device %s: any user of this machine can connect to a TCP port and use the TPM; use a unix socket of mode 0600 (`holdfast tpm serve` without addresses) or a device", spec)
	}
	return fmt.Errorf("TPM %q: expected inproc:DIR, mssim:HOST:PORT, swtpm:ADDR or device:PATH", spec)
}

func checkOwner(spec, path string, format uint32, others uint32) error {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return fmt.Errorf("report device %s: %w", spec, err)
	}
	if st.Mode&unix.S_IFMT != format {
		return fmt.Errorf("report device %s: %s is of another file type than expected", spec, path)
	}
	if st.Uid != 0 && int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("report device %s: %s belongs to user %d, who can use the TPM; expected user %d or root", spec, path, st.Uid, os.Geteuid())
	}
	if open := st.Mode & others; open != 0 {
		return fmt.Errorf("report device %s: %s has mode %04o, so that others can open it (bits %04o); take them away with chmod", spec, path, st.Mode&0o7777, open)
	}
	return nil
}

// checkFolder: whoever may replace the socket can put another TPM there.
func checkFolder(spec, path string) error {
	dir := filepath.Dir(path)
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return fmt.Errorf("report device %s: %w", spec, err)
	}
	if st.Mode&0o022 != 0 && st.Mode&unix.S_ISVTX == 0 {
		return fmt.Errorf("report device %s: the folder %s has mode %04o, so that others can replace the socket", spec, dir, st.Mode&0o7777)
	}
	return nil
}
