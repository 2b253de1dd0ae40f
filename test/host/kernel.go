// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
)

// KernelCache is where tools/setup/kernel.sh unpacks a distribution's kernel
// package without installing it: one folder for each, with boot/ and
// lib/modules/ inside.
const KernelCache = "/var/cache/holdfast/kernel"

// A Kernel is an unmodified kernel of a distribution that test machines boot.
type Kernel struct {
	Release string // as uname -r says
	Image   string // boot/vmlinuz-RELEASE
	Modules string // lib/modules/RELEASE
	Config  string // boot/config-RELEASE
}

// StockKernel finds the newest kernel in [KernelCache], or else an installed
// one of this machine. HOLDFAST_VM_KERNEL names another root folder.
func StockKernel() (Kernel, error) {
	roots := []string{os.Getenv("HOLDFAST_VM_KERNEL")}
	if roots[0] == "" {
		unpacked, _ := filepath.Glob(KernelCache + "/*")
		sort.Sort(sort.Reverse(sort.StringSlice(unpacked)))
		roots = append(unpacked, "/")
	}
	for _, root := range roots {
		images, _ := filepath.Glob(filepath.Join(root, "boot/vmlinuz-*"))
		sort.Sort(sort.Reverse(sort.StringSlice(images)))
		for _, image := range images {
			release := filepath.Base(image)[len("vmlinuz-"):]
			k := Kernel{release, image, filepath.Join(root, "lib/modules", release), filepath.Join(root, "boot/config-"+release)}
			if _, err := os.Stat(filepath.Join(k.Modules, "modules.builtin")); err == nil && readable(image) {
				return k, nil
			}
		}
	}
	return Kernel{}, fmt.Errorf("no kernel with its modules in %v: run tools/setup/kernel.sh", roots)
}

func readable(file string) bool {
	f, err := os.Open(file)
	if err != nil {
		return false
	}
	return f.Close() == nil
}

func probeStockKernel() (string, error) {
	k, err := StockKernel()
	if err != nil {
		return "", err
	}
	return k.Image, nil
}

// ovmf are the places of the UEFI firmware's two flash files in Debian and
// Ubuntu, code first.
var ovmf = [][2]string{
	{"/usr/share/OVMF/OVMF_CODE_4M.fd", "/usr/share/OVMF/OVMF_VARS_4M.fd"},
	{"/usr/share/OVMF/OVMF_CODE.fd", "/usr/share/OVMF/OVMF_VARS.fd"},
}

// OVMF finds the UEFI firmware for QEMU and the template of its variables.
func OVMF() (code, vars string, err error) {
	for _, f := range ovmf {
		if readable(f[0]) && readable(f[1]) {
			return f[0], f[1], nil
		}
	}
	return "", "", errors.New("no OVMF firmware in /usr/share/OVMF (package ovmf)")
}

func probeOVMF() (string, error) {
	code, _, err := OVMF()
	return code, err
}
