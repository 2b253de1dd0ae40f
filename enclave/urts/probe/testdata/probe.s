# SPDX-License-Identifier: Apache-2.0
# The enclave of the tests: no SDK, no stack, a few commands that use what an
# enclave can do and try what it must not. Built by `go generate` into probe.bin,
# which starts at the enclave's base. Entry: RAX = CSSA, RCX = where to exit to,
# RDI = command, RSI = marshalling structure. Exit: RDI = -1, RSI = status.
        .set    DATA, 0x20000           # readable and writable pages
        .macro  enclu leaf
        mov     $\leaf, %eax
        .byte   0x0f, 0x01, 0xd7
        .endm
        .macro  call_range
        lea     base(%rip), %rax
        add     (%rsi), %rax
        mov     8(%rsi), %rcx
        mov     16(%rsi), %rdx
        .endm
        .text
base:   mov     %rcx, %r15
        mov     %rbx, %r14              # this thread's TCS; its first SSA frame follows it
        mov     %rcx, %rbx
        cmp     $-3, %rdi
        je      except
        cmp     $-1, %rdi
        je      done
        cmp     $-2, %rdi
        je      oret
        cmp     $27, %rdi
        ja      bad
        lea     table(%rip), %r8
        movslq  (%r8,%rdi,4), %r9
        add     %r8, %r9
        jmp     *%r9
table:  .long   put-table, get-table, ocall-table, ud-table, report-table, seal-table, loop-table, call-table, peek-table, jump-table, accept-table, scribble-table, fill-table, check-table
        .long   accept2-table, ask-table, emodpe-table, poke-table, transform-table, stack-table, hole-table, lower-table
        .long   flip-table, keys-table, flood-table, gc-table, copy-table, overrun-table

done:   xor     %esi, %esi
out:    mov     $-1, %rdi
exit:   mov     %r15, %rbx
        enclu   4                       # EEXIT
bad:    mov     $1, %esi
        jmp     out

put:    mov     (%rsi), %rax            # 0: remember a number
        mov     %rax, DATA+base(%rip)
        jmp     done
get:    mov     DATA+base(%rip), %rax   # 1: give it back
        mov     %rax, (%rsi)
        jmp     done
ocall:  mov     $5, %edi                # 2: OCALL 5, its status is the result
        jmp     exit
oret:   mov     0x1c00(%r14), %r8       # RSI is the OCALL's status; a place in the SSA frame that nothing uses
        test    %r8, %r8
        jz      out
        movq    $0, 0x1c00(%r14)        # the answer to command 19: its structure is at R8
        mov     0x1c08(%r14), %r9
        mov     8(%r8), %rax
        inc     %rax
        mov     %rax, 16(%r9)
        jmp     out
ud:     movabs  $0x1122334455667788, %r12  # 3: an exception that is handled
        movq    %r12, %xmm5
        ud2
        movq    %xmm5, %rax
        cmp     %rax, %r12              # registers survive
        jne     bad
        jmp     done
report: mov     %rsi, %r14              # 4: REPORT for a target at ms, data at ms+512, out at ms+1024
        lea     DATA+base(%rip), %rdi
        mov     $576/8, %ecx
        cld
        rep movsq
        lea     DATA+base(%rip), %rbx
        lea     DATA+512+base(%rip), %rcx
        lea     DATA+1024+base(%rip), %rdx
        enclu   0                       # EREPORT
        lea     DATA+1024+base(%rip), %rsi
        lea     1024(%r14), %rdi
        mov     $432/8, %ecx
        rep movsq
        jmp     done
seal:   mov     %rsi, %r14              # 5: EGETKEY by the request at ms, key at ms+512
        lea     DATA+base(%rip), %rdi
        mov     $512/8, %ecx
        cld
        rep movsq
        lea     DATA+base(%rip), %rbx
        lea     DATA+512+base(%rip), %rcx
        enclu   1                       # EGETKEY
        mov     %rax, %rsi
        jnz     1f
        jmp     out
1:      mov     DATA+512+base(%rip), %rax
        mov     %rax, 512(%r14)
        mov     DATA+520+base(%rip), %rax
        mov     %rax, 520(%r14)
        jmp     done
loop:   incq    DATA+0x800+base(%rip)   # 6: count until ms is not zero
        cmpq    $0, (%rsi)
        je      loop
        mov     DATA+0x800+base(%rip), %rax
        mov     %rax, 8(%rsi)
        jmp     done
call:   mov     $39, %eax               # 7: getpid(): an illegal instruction here; the handler skips it
        syscall
        cmp     $39, %rax
        jne     bad
        jmp     done
peek:   mov     (%rsi), %rsi            # 8: read where ms says
        mov     (%rsi), %rax
        jmp     done
jump:   mov     (%rsi), %rbx            # 9: leave to where ms says
        enclu   4
accept: mov     (%rsi), %rcx            # 10: accept a new page at offset ms and use it
        lea     base(%rip), %rax
        add     %rax, %rcx
        lea     info(%rip), %rsi
        lea     DATA+base(%rip), %rbx
        mov     (%rsi), %rax
        mov     %rax, (%rbx)
        xor     %eax, %eax
        mov     %rax, 8(%rbx)
        mov     %rax, 16(%rbx)
        mov     %rax, 24(%rbx)
        mov     %rax, 32(%rbx)
        mov     %rax, 40(%rbx)
        mov     %rax, 48(%rbx)
        mov     %rax, 56(%rbx)
        enclu   5                       # EACCEPT
        test    %rax, %rax
        mov     %rax, %rsi
        jnz     out
        movq    $77, (%rcx)
        jmp     done
info:   .quad   0x20b                   # REG, pending, R W
scribble: movb  $0x90, base(%rip)       # 11: write to its own code
        jmp     done
fill:   call_range                      # 12: write ms[2]+i into page i, from offset ms[0], ms[1] pages
1:      mov     %rdx, (%rax)
        mov     %rdx, 4088(%rax)
        inc     %rdx
        add     $4096, %rax
        dec     %rcx
        jnz     1b
        jmp     done
check:  call_range                      # 13: are the numbers of fill still there?
1:      cmp     %rdx, (%rax)
        jne     bad
        cmp     %rdx, 4088(%rax)
        jne     bad
        inc     %rdx
        add     $4096, %rax
        dec     %rcx
        jnz     1b
        jmp     done

        .macro  secinfo                 # SECINFO from the flags in RAX, at RBX, in a frame's unused part
        lea     0x1c40(%r14), %rbx
        mov     %rax, (%rbx)
        xor     %eax, %eax
        .irp    o, 8, 16, 24, 32, 40, 48, 56
        mov     %rax, \o(%rbx)
        .endr
        .endm
accept2: lea    base(%rip), %rcx        # 14: EACCEPT of ms[2] pages from offset ms[0] as flags ms[1] say
        add     (%rsi), %rcx
        mov     16(%rsi), %rdx
        mov     8(%rsi), %rax
        secinfo
1:      enclu   5
        test    %rax, %rax
        mov     %rax, %rsi
        jnz     out
        add     $4096, %rcx
        dec     %rdx
        jnz     1b
        jmp     done
ask:    mov     (%rsi), %rdi            # 15: OCALL ms[0] with structure ms[1], its status is the result
        mov     8(%rsi), %rsi
        jmp     exit
emodpe: lea     base(%rip), %rcx        # 16: EMODPE of the page at offset ms[0] by flags ms[1]
        add     (%rsi), %rcx
        mov     8(%rsi), %rax
        secinfo
        enclu   6
        jmp     done
poke:   lea     base(%rip), %rdi        # 17: copy ms[1] bytes from ms[2] on to offset ms[0]
        add     (%rsi), %rdi
        mov     8(%rsi), %rcx
        add     $16, %rsi
        cld
        rep movsb
        jmp     done
transform: mov  (%rsi), %r8             # 18: *ms[1] = *ms[0] ^ 0x5a, ms[2] bytes; both outside
        mov     8(%rsi), %r9
        mov     16(%rsi), %rcx
        jrcxz   2f
1:      movb    (%r8), %al
        xor     $0x5a, %al
        movb    %al, (%r9)
        inc     %r8
        inc     %r9
        dec     %rcx
        jnz     1b
2:      jmp     done
stack:  mov     %rsi, 0x1c08(%r14)      # 19: OCALL ms[0] with {ms[1], answer} on the untrusted stack; ms[2] = answer + 1
        mov     (%rsi), %rdi
        mov     8(%rsi), %rax
        sub     $256, %rsp
        and     $-64, %rsp
        mov     %rax, (%rsp)
        movq    $0, 8(%rsp)
        mov     %rsp, %rsi
        mov     %rsp, 0x1c00(%r14)
        jmp     exit
hole:   lea     base(%rip), %rax        # 20: write 1 to the page at offset ms[0]
        add     (%rsi), %rax
        movq    $1, (%rax)
        jmp     done
lower:  mov     0x2000-184+144(%r14), %r12 # 21: take 4096 bytes of the untrusted stack; an exception must not give them back
        sub     $4096, %r12
        mov     %r12, 0x2000-184+144(%r14)
        ud2
        cmp     0x2000-184+144(%r14), %r12
        jne     bad
        incq    DATA+0x800+base(%rip)
        mov     $100000, %ecx
1:      dec     %ecx                    # time for an interrupt
        jnz     1b
        cmp     0x2000-184+144(%r14), %r12
        jne     bad
        jmp     done

flip:   lea     base(%rip), %rdi        # 22: ms[1] and ms[2] by turns to offset ms[0], until ms[3]; how often to ms[4]
        add     (%rsi), %rdi
        mov     8(%rsi), %rax
        mov     16(%rsi), %rdx
1:      mov     %rdx, (%rdi)
        incq    32(%rsi)
        mov     %rax, (%rdi)
        cmpq    $0, 24(%rsi)
        je      1b
        jmp     done
keys:   mov     %rsi, %r13              # 23: EGETKEY ms[1] times by the request at offset ms[0], the key goes to the page behind
        lea     base(%rip), %rbx        # to ms[2] how many keys came, ms[3] how many differed from the first, ms[4] refused
        add     (%r13), %rbx
        lea     4096(%rbx), %rcx
        mov     8(%r13), %r12
        xor     %r8d, %r8d
        xor     %r9d, %r9d
        xor     %r10d, %r10d
1:      enclu   1                       # ZF says that there is none
        jz      3f
        mov     (%rcx), %rdx
        test    %r8, %r8
        jnz     2f
        mov     %rdx, %r11
2:      inc     %r8
        cmp     %rdx, %r11
        je      4f
        inc     %r9
        jmp     4f
3:      inc     %r10
4:      dec     %r12
        jnz     1b
        mov     %r8, 16(%r13)
        mov     %r9, 24(%r13)
        mov     %r10, 32(%r13)
        mov     %r11, 40(%r13)
        jmp     done
flood:  ud2                             # 24: an exception, handled, again and again until ms[0]
        incq    8(%rsi)
        cmpq    $0, (%rsi)
        je      flood
        jmp     done

gc:     call_range                      # 25: write ms[2] to each page, from offset ms[0], ms[1] pages; a page that must not be written gets W back
        movq    $1, DATA+0x7f0+base(%rip)
1:      mov     %rdx, (%rax)
        add     $4096, %rax
        dec     %rcx
        jnz     1b
        movq    $0, DATA+0x7f0+base(%rip)
        jmp     done
copy:   mov     %rsi, %r13              # 26: ms[1] bytes from ms[4] on to offset ms[0], then ms[2] bytes from there back
        lea     base(%rip), %rdi
        add     (%r13), %rdi
        mov     8(%r13), %rcx
        lea     32(%r13), %rsi
        cld
        rep movsb
        lea     base(%rip), %rsi
        add     (%r13), %rsi
        mov     16(%r13), %rcx
        lea     32(%r13), %rdi
        rep movsb
        jmp     done

overrun: mov    $0x1009, %r12d          # 27: an exception of which the handler says SGX_ERROR_STACK_OVERRUN
        ud2
        jmp     bad

except: lea     4096(%r14), %r8         # skip a two-byte instruction if it was #UD
        mov     4096-184+160(%r8), %eax # EXITINFO
        cmp     $0x8000030e, %eax
        je      fault
        cmp     $0x80000306, %eax
        jne     bad
        mov     $0x1009, %esi
        cmp     %rsi, 4096-184+96(%r8)  # R12
        je      out
        addq    $2, 4096-184+136(%r8)   # RIP
        jmp     done
fault:  cmpq    $0, DATA+0x7f0+base(%rip) # a page fault, which only command 25 expects
        je      bad
        mov     4096-184-16(%r8), %rcx  # EXINFO.MADDR
        mov     $0x203, %eax
        secinfo
        enclu   6                       # EMODPE to R W
        jmp     done
