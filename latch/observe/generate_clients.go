// SPDX-License-Identifier: Apache-2.0

package observe

// The object of the clients' recorder; see generate.go.
//go:generate clang-14 -O2 -g -target bpf -mcpu=v3 -Wall -Wextra -Wno-unused-parameter -Werror -fdebug-compilation-dir=. -fdebug-prefix-map=$PWD=. -I/usr/include/x86_64-linux-gnu -c bpf/clients.bpf.c -o bpf/clients.bpf.o
//go:generate llvm-strip-14 -g bpf/clients.bpf.o
