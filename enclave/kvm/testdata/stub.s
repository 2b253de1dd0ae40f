# SPDX-License-Identifier: Apache-2.0
# What runs in ring 0 of an enclave's virtual machine: every exception goes to
# the monitor by HLT with a frame on the stack, and the monitor lets the enclave
# go on at one of the ways back. Built by `go generate` into stub.bin, which is
# one page at the start of the stub's region. stub.go has the offsets.
#
# The frame that the monitor reads at RSP, from low to high: GS base, FS base,
# CR2, vector, error code, RIP, CS, RFLAGS, RSP, SS.
        .text
        .macro  vector n, code=0
        .org    16*\n
        .if     \code == 0
        push    $0                      # no error code: one of ours
        .endif
        push    $\n
        jmp     leave
        .endm
        vector  0
        vector  1
        vector  2
        vector  3
        vector  4
        vector  5
        vector  6
        vector  7
        vector  8, 1
        vector  9
        vector  10, 1
        vector  11, 1
        vector  12, 1
        vector  13, 1
        vector  14, 1
        vector  15
        vector  16
        vector  17, 1
        vector  18
        vector  19
        vector  20
        vector  21, 1
        vector  22
        vector  23
        vector  24
        vector  25
        vector  26
        vector  27
        vector  28
        vector  29, 1
        vector  30, 1
        vector  31

        .org    0x200
leave:  sub     $24, %rsp
        push    %rax
        mov     %cr2, %rax
        mov     %rax, 24(%rsp)
        rdfsbase %rax
        mov     %rax, 16(%rsp)
        rdgsbase %rax
        mov     %rax, 8(%rsp)
        pop     %rax
        jmp     stop

        .org    0x240                   # back, with translations forgotten
flush:  push    %rax
        mov     %cr3, %rax
        mov     %rax, %cr3
        pop     %rax
        jmp     resume
        .org    0x280                   # back
resume: push    %rax
        mov     16(%rsp), %rax
        wrfsbase %rax
        mov     8(%rsp), %rax
        wrgsbase %rax
        pop     %rax
        add     $40, %rsp
        iretq

        .org    0x300
stop:   hlt                             # to the monitor, which never comes back here
        jmp     stop

        .org    0x340                   # SYSCALL where EFER.SCE=0 does not forbid it:
syscall: hlt                            # no stack is touched, since RSP is the enclave's
        jmp     syscall
        .org    0x1000
