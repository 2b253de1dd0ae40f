# SPDX-License-Identifier: Apache-2.0
# The test enclave for P mode: it runs in ring 0, handles its own exceptions,
# restricts a part of itself by its own page tables, and tries to get out.
# Built by `go generate` into p.bin. Entry and exit are as in probe.s; it leaves by HLT
# with the leaf in EAX, since it takes #UD itself.
        .set    DATA, 0x20000
        .set    TABLES, 0x40000         # four pages: root to last level
        .set    IDT, 0x44000
        .set    SECRET, 0x45000
        .set    PHYS, 0x4000000000      # where the enclave's range is for the processor
        .set    STUB, 0x10000003        # the stub's code page, present and writable
        .macro  gate n, handler
        lea     \handler(%rip), %rax
        lea     IDT+16*\n+base(%rip), %rcx
        mov     %ax, (%rcx)
        shr     $16, %rax
        mov     %ax, 6(%rcx)
        shr     $16, %rax
        mov     %eax, 8(%rcx)
        .endm
        .text
base:   mov     %rcx, %r15
        mov     %rsi, %r14
        cmp     $-3, %rdi
        je      bad                     # what reaches the monitor is not handled
        cmp     $-1, %rdi
        je      done
        cmp     $0, %rdi
        je      ud
        cmp     $1, %rdi
        je      sandbox
        cmp     $2, %rdi
        je      hostile
        cmp     $3, %rdi
        je      count
        cmp     $4, %rdi
        je      pf
bad:    mov     $1, %esi
        jmp     out
done:   xor     %esi, %esi
out:    mov     $-1, %rdi
        mov     %r15, %rbx
        mov     $4, %eax                # EEXIT
        hlt

handlers: sidt  DATA+base(%rip)         # take the monitor's exception table and change it
        mov     DATA+2+base(%rip), %rsi
        lea     IDT+base(%rip), %rdi
        mov     $64, %ecx
        cld
        rep movsq
        gate    6, illegal
        gate    14, pagefault
        movw    $511, DATA+base(%rip)
        lea     IDT+base(%rip), %rax
        mov     %rax, DATA+2+base(%rip)
        lidt    DATA+base(%rip)
        ret
illegal: incq   DATA+0x100+base(%rip)   # skip UD2
        addq    $2, (%rsp)
        iretq
pagefault: push %rax
        incq    DATA+0x108+base(%rip)
        mov     %cr2, %rax
        mov     %rax, DATA+0x118+base(%rip)
        cmpq    $0, DATA+0x110+base(%rip)
        jne     1f
        movabs  $PHYS+SECRET+3, %rax    # allowed: give it the page
        mov     %rax, TABLES+0x3000+8*0x45+base(%rip)
        lea     SECRET+base(%rip), %rax
        invlpg  (%rax)
        pop     %rax
        add     $8, %rsp
        iretq
1:      pop     %rax                    # denied: it reads something else
        mov     $0xdead, %eax
        add     $8, %rsp
        addq    $3, (%rsp)
        iretq
tables: mov     $-0x7fffe000, %rsi      # the monitor's root table
        lea     TABLES+base(%rip), %rdi
        mov     $512, %ecx
        cld
        rep movsq
        movabs  $PHYS+TABLES+0x1003, %rax
        mov     %rax, TABLES+8*64+base(%rip)
        movabs  $PHYS+TABLES+0x2003, %rax
        mov     %rax, TABLES+0x1000+base(%rip)
        movabs  $PHYS+TABLES+0x3003, %rax
        mov     %rax, TABLES+0x2000+base(%rip)
        movabs  $PHYS+3, %rax
        lea     TABLES+0x3000+base(%rip), %rdi
        mov     $128, %ecx
1:      mov     %rax, (%rdi)
        add     $4096, %rax
        add     $8, %rdi
        dec     %ecx
        jnz     1b
        movq    $0, TABLES+0x3000+8*0x45+base(%rip)
        movabs  $PHYS+TABLES, %rax
        mov     %rax, %cr3
        ret

ud:     call    handlers                # 0: ms[0] illegal instructions, all handled here; their number to ms[1]
        movq    $0, DATA+0x100+base(%rip)
        mov     (%r14), %rdx
1:      ud2
        dec     %rdx
        jnz     1b
        mov     DATA+0x100+base(%rip), %rax
        mov     %rax, 8(%r14)
        jmp     done

sandbox: movq   $0x5ec4e7, SECRET+base(%rip) # 1: a part that must not see a page, and one that may
        call    handlers
        call    tables
        movq    $0, DATA+0x108+base(%rip)
        movq    $1, DATA+0x110+base(%rip)
        lea     SECRET+base(%rip), %rbx
        mov     (%rbx), %rax            # denied
        mov     %rax, (%r14)
        movq    $0, DATA+0x110+base(%rip)
        mov     (%rbx), %rax            # allowed
        mov     %rax, 8(%r14)
        mov     DATA+0x108+base(%rip), %rax
        mov     %rax, 16(%r14)
        mov     DATA+0x118+base(%rip), %rax
        mov     %rax, 24(%r14)
        jmp     done

pf:     call    handlers                # 4: ms[0] page faults, all handled here; their number to ms[1]
        call    tables
        movq    $0, DATA+0x108+base(%rip)
        movq    $0, DATA+0x110+base(%rip)
        lea     SECRET+base(%rip), %rbx
        mov     (%r14), %rdx
1:      movq    $0, TABLES+0x3000+8*0x45+base(%rip)
        invlpg  (%rbx)
        mov     (%rbx), %rax
        dec     %rdx
        jnz     1b
        mov     DATA+0x108+base(%rip), %rax
        mov     %rax, 8(%r14)
        jmp     done

count:  sgdt    DATA+base(%rip)         # 3: until ms[0] is not zero; asynchronous exits meanwhile to ms[1]
        mov     DATA+2+base(%rip), %rbx
        mov     0x200(%rbx), %rdx
1:      pause
        cmpq    $0, (%r14)
        je      1b
        mov     0x200(%rbx), %rax
        sub     %rdx, %rax
        mov     %rax, 8(%r14)
        jmp     done

        .macro  try n, label
        cmp     $\n, %rax
        je      \label
        .endm
hostile: mov    (%r14), %rax            # 2: what ms[0] says
        try     0, port
        try     1, rdmsr
        try     2, outside
        try     3, triple
        try     4, hypercall
        try     5, paging
        try     6, tcs
        try     7, stub
        try     8, code
        try     9, forged
        try     10, wrmsr
        try     11, input
        jmp     bad
port:   out     %al, $0x80
        jmp     done
input:  mov     $0x3f8, %edx
        in      %dx, %al
        jmp     done
rdmsr:  mov     $0x1b, %ecx
        rdmsr
        jmp     done
wrmsr:  mov     $0xc0010117, %ecx       # VM_HSAVE_PA
        xor     %eax, %eax
        xor     %edx, %edx
        wrmsr
        jmp     done
        .macro  reach entry
        call    tables
        movabs  $\entry, %rax
        mov     %rax, TABLES+0x3000+8*0x45+base(%rip)
        .endm
outside: reach  0x100003                # low memory of the machine: there is none
        mov     SECRET+base(%rip), %rax
        jmp     done
tcs:    reach   PHYS+0x10003
        mov     SECRET+base(%rip), %rax
        jmp     done
stub:   reach   STUB
        movb    $0x90, SECRET+base(%rip)
        jmp     done
code:   reach   PHYS+3
        movb    $0x90, SECRET+0x800+base(%rip)
        jmp     done
triple: movw    $0, DATA+base(%rip)
        lidt    DATA+base(%rip)
        ud2
paging: mov     %cr0, %rax
        btr     $31, %rax
        mov     %rax, %cr0
        jmp     done
hypercall: mov  $5, %eax                # KICK_CPU
        vmmcall
        mov     %rax, 8(%r14)
        mov     $12, %eax               # MAP_GPA_RANGE
        vmmcall
        mov     %rax, 16(%r14)
        jmp     done
forged: sgdt    DATA+base(%rip)         # an exit as the stub makes it: a page fault in the application
        mov     DATA+2+base(%rip), %rsp
        add     $4096-80, %rsp
        movq    $0x400000, 16(%rsp)
        movq    $14, 24(%rsp)
        movq    $4, 32(%rsp)
        movq    $8, 48(%rsp)
        mov     $-0x7ffffd00, %rax
        jmp     *%rax
