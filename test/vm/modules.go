// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"bytes"
	"compress/gzip"
	"debug/elf"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// A module is one kernel module to load.
type module struct {
	name string
	data []byte // the ELF object
}

// modules returns the named modules after all that they depend on, each once.
// A kernel package without modules.dep is enough: each module says in its
// section .modinfo what it needs.
func modules(dir string, names []string) ([]module, error) {
	if len(names) == 0 {
		return nil, nil
	}
	found, err := index(dir)
	if err != nil {
		return nil, err
	}
	builtin, err := os.ReadFile(filepath.Join(dir, "modules.builtin"))
	if err != nil {
		return nil, err
	}
	for _, line := range strings.Fields(string(builtin)) {
		found[moduleName(line)] = ""
	}
	var out []module
	done := map[string]bool{}
	var add func(name string, chain []string, must bool) error
	add = func(name string, chain []string, must bool) error {
		name = strings.ReplaceAll(name, "-", "_")
		if done[name] {
			return nil
		}
		done[name] = true
		path, known := found[name]
		switch {
		case !known && must:
			return fmt.Errorf("the kernel in %s has no module %s (wanted by %s)", dir, name, strings.Join(append(chain, "the test"), ", "))
		case !known, path == "":
			return nil
		}
		data, err := object(path)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		needs, wants, err := dependencies(data)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		chain = append([]string{name}, chain...)
		for _, n := range wants {
			if err := add(n, chain, false); err != nil {
				return err
			}
		}
		for _, n := range needs {
			if err := add(n, chain, true); err != nil {
				return err
			}
		}
		out = append(out, module{name, data})
		return nil
	}
	for _, n := range names {
		if err := add(n, nil, true); err != nil {
			return nil, err
		}
	}
	return out, nil
}

var moduleFile = regexp.MustCompile(`\.ko(\.gz|\.xz|\.zst)?$`)

func moduleName(path string) string {
	return strings.ReplaceAll(moduleFile.ReplaceAllString(filepath.Base(path), ""), "-", "_")
}

// index finds all module files below dir.
func index(dir string) (map[string]string, error) {
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && moduleFile.MatchString(p) {
			found[moduleName(p)] = p
		}
		return err
	})
	return found, err
}

// object returns a module's file, uncompressed.
func object(path string) ([]byte, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	switch filepath.Ext(path) {
	case ".gz":
		z, err := gzip.NewReader(bytes.NewReader(b))
		if err != nil {
			return nil, err
		}
		return io.ReadAll(z)
	case ".xz":
		return exec.Command("xz", "-dc", path).Output()
	case ".zst":
		return exec.Command("zstd", "-qdc", path).Output()
	}
	return b, nil
}

// dependencies reads .modinfo: zero-terminated "key=value".
func dependencies(object []byte) (needs, wants []string, err error) {
	f, err := elf.NewFile(bytes.NewReader(object))
	if err != nil {
		return nil, nil, err
	}
	s := f.Section(".modinfo")
	if s == nil {
		return nil, nil, fmt.Errorf("no section .modinfo: not a kernel module")
	}
	info, err := s.Data()
	if err != nil {
		return nil, nil, err
	}
	for _, entry := range strings.Split(string(info), "\x00") {
		key, value, _ := strings.Cut(entry, "=")
		switch key {
		case "depends":
			for _, n := range strings.Split(value, ",") {
				if n != "" {
					needs = append(needs, n)
				}
			}
		case "softdep":
			if list, ok := strings.CutPrefix(value, "pre:"); ok {
				list, _, _ = strings.Cut(list, "post:")
				wants = append(wants, strings.Fields(list)...)
			}
		}
	}
	return needs, wants, nil
}
