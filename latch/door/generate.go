// SPDX-License-Identifier: Apache-2.0

package door

// The object is built by clang 14, as in latch/observe.
//go:generate clang-14 -O2 -g -target bpf -mcpu=v3 -Wall -Wextra -Wno-unused-parameter -Werror -fdebug-compilation-dir=. -fdebug-prefix-map=$PWD=. -I/usr/include/x86_64-linux-gnu -c bpf/door.bpf.c -o bpf/door.bpf.o
//go:generate llvm-strip-14 -g bpf/door.bpf.o
