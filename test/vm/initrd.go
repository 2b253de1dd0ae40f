// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"bufio"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"sort"
	"strings"

	"holdfast/test/host"
)

// writeInitrd writes the machine's first file system to file. init is the
// program that starts in it.
func writeInitrd(file string, k host.Kernel, c Config, init string) (err error) {
	if len(c.Cmd) == 0 {
		return errors.New("Config.Cmd is empty: what shall the machine run?")
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := bufio.NewWriterSize(f, 1<<20)
	a := newCpio(w)
	for _, d := range []string{"proc", "sys", "dev", "tmp", "run", "root", "etc", "var/tmp", "bin", "sbin", "lib", "usr/bin", "usr/lib", "usr/sbin"} {
		a.dir(d)
	}
	a.char("dev/console", 5, 1)
	a.char("dev/null", 1, 3)
	a.file("etc/passwd", 0o644, []byte("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"))
	a.file("etc/group", 0o644, []byte("root:x:0:\nnogroup:x:65534:\n"))
	a.file("etc/hosts", 0o644, []byte("127.0.0.1 localhost\n::1 localhost\n"))
	if err := addFile(a, "/init", init); err != nil {
		return err
	}
	mods, err := modules(k.Modules, c.Modules)
	if err != nil {
		return err
	}
	job := struct {
		Modules []string
		Params  map[string]string
		Cmd     []string
		Env     []string
		Stdin   bool
	}{Cmd: c.Cmd, Env: c.Env, Stdin: c.Stdin, Params: map[string]string{}}
	for _, m := range mods {
		name := "/lib/modules/" + m.name + ".ko"
		a.file(name, 0o644, m.data)
		job.Modules = append(job.Modules, name)
		if p := c.Params[m.name]; p != "" {
			job.Params[name] = p
		}
	}
	text, err := json.Marshal(job)
	if err != nil {
		return err
	}
	a.file("/holdfast-vm.json", 0o644, text)
	if err := addPrograms(a, c.Programs); err != nil {
		return err
	}
	for _, name := range sorted(c.Files) {
		if err := addTree(a, name, c.Files[name]); err != nil {
			return err
		}
	}
	for _, name := range sorted(c.Data) {
		a.file(name, 0o755, c.Data[name])
	}
	return errors.Join(a.close(), w.Flush())
}

func sorted[V any](m map[string]V) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}

func addFile(a *cpio, name, from string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	a.file(name, int(info.Mode().Perm()), b)
	return a.err
}

// addTree adds a file, or a folder with what is in it. Links inside stay links.
func addTree(a *cpio, name, from string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return addFile(a, name, from)
	}
	return filepath.WalkDir(from, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, p)
		if err != nil {
			return err
		}
		to := path.Join(name, filepath.ToSlash(rel))
		switch {
		case d.IsDir():
			a.dir(to)
			return a.err
		case d.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(p)
			a.link(to, target)
			return errors.Join(err, a.err)
		case d.Type().IsRegular():
			return addFile(a, to, p)
		}
		return fmt.Errorf("%s is neither file, folder nor link", p)
	})
}

var lddLine = regexp.MustCompile(`(?m)^\s*(?:\S+ => )?(/\S+) \(0x`)

// addPrograms adds programs of this machine with the libraries that the
// dynamic linker would load for them here.
func addPrograms(a *cpio, programs []string) error {
	done := map[string]bool{}
	for _, name := range programs {
		file, err := host.LookPath(name)
		if err != nil {
			return err
		}
		if file, err = filepath.Abs(file); err != nil {
			return err
		}
		list := []string{file}
		if dynamic(file) {
			out, err := exec.Command("ldd", file).Output()
			if err != nil {
				return fmt.Errorf("ldd %s: %w", file, err)
			}
			for _, m := range lddLine.FindAllStringSubmatch(string(out), -1) {
				list = append(list, m[1])
			}
		}
		for _, p := range list {
			if done[p] {
				continue
			}
			done[p] = true
			if err := addFile(a, p, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// dynamic says whether file is a program that needs a dynamic linker.
func dynamic(file string) bool {
	f, err := elf.Open(file)
	if err != nil {
		return false // a script
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			return !strings.HasSuffix(file, ".ko")
		}
	}
	return false
}
