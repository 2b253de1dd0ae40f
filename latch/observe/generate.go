// SPDX-License-Identifier: Apache-2.0

package observe

// The object is built by clang 14, so that its bytes can be compared
// (TestObject does so where clang-14 is installed). BTF needs -g; the DWARF
// sections are stripped and the folder is taken out of the paths.
//go:generate clang-14 -O2 -g -target bpf -mcpu=v3 -Wall -Wextra -Wno-unused-parameter -Werror -fdebug-compilation-dir=. -fdebug-prefix-map=$PWD=. -I/usr/include/x86_64-linux-gnu -c bpf/observe.bpf.c -o bpf/observe.bpf.o
//go:generate llvm-strip-14 -g bpf/observe.bpf.o
