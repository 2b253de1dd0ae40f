/* SPDX-License-Identifier: Apache-2.0 */
/* Where the processor enters the enclave, and where it leaves.
 *
 * EENTER: RAX = CSSA, RBX = TCS, RCX = where EEXIT goes, RDI = command, RSI = its
 * argument; RSP and RBP are the application's. FS and GS are the thread's data
 * (thread.h), which are zero until the thread is set up.
 * EEXIT: RDI = -1 and RSI = status, or RDI = number of an OCALL and RSI = its
 * structure. No other register leaves with a value of the enclave's. */
        .set    LAST_SP, 8
        .set    FIRST_GPR, 32
        .set    RETURN, 128
        .set    DEPTH, 136
        .set    USP, 152
        .set    GPR_USP, 144
        .set    GPR_UBP, 152
        .set    TEMPLATE_SP, 80 + 8     /* of g_global_data: the stack's top, from the TCS */

        .text
        .globl  enclave_entry
        .type   enclave_entry, @function
enclave_entry:
        .cfi_startproc
        .cfi_undefined rip
        cld
        test    %rax, %rax
        jnz     exception
        cmp     $-2, %rdi
        je      oreturn
        mov     %gs:LAST_SP, %rdx
        test    %rdx, %rdx
        jnz     1f
        mov     g_global_data+TEMPLATE_SP(%rip), %rdx
        add     %rbx, %rdx
1:      lea     -128(%rdx), %rsp
        and     $-64, %rsp
        call    clean_flags
        push    %rcx                    /* where to go back to */
        push    %rbx
        mov     %rbx, %rdx              /* rcx is the return address */
        call    trts_enter
        pop     %rbx
        pop     %rcx
        mov     %eax, %esi
        mov     $-1, %rdi
        mov     %gs:FIRST_GPR, %rdx
        test    %rdx, %rdx
        jnz     2f
        /* A thread that was never set up: the first frame of the SSA tells. */
        mov     g_global_data+80+FIRST_GPR(%rip), %rdx
        add     %rbx, %rdx
2:      mov     GPR_USP(%rdx), %rsp
        mov     GPR_UBP(%rdx), %rbp
        mov     %rcx, %rbx
        jmp     leave

/* After AEX: the command must be -3. The stack is the interrupted one, below its
 * red zone, if it is a stack of this thread; trts_exception looks at that. */
exception:
        cmp     $1, %rax
        jne     refuse
        cmp     $-3, %rdi
        jne     refuse
        mov     %gs:FIRST_GPR, %rdx
        test    %rdx, %rdx
        jz      refuse
        mov     32(%rdx), %rdx          /* RSP there */
        cmp     %gs:16, %rdx
        ja      refuse
        sub     $4096, %rdx
        jc      refuse
        cmp     %gs:24, %rdx
        jb      refuse
        lea     -64(%rdx), %rsp
        and     $-64, %rsp
        call    clean_flags
        push    %rcx
        push    %rbx
        call    trts_exception
        pop     %rbx
        pop     %rbx
        mov     %eax, %esi
        mov     $-1, %rdi
        mov     %gs:FIRST_GPR, %rdx
        mov     GPR_USP(%rdx), %rsp
        mov     GPR_UBP(%rdx), %rbp
        jmp     leave

refuse: mov     $0x1006, %esi           /* SGX_ERROR_ENCLAVE_CRASHED */
        mov     $-1, %rdi
        mov     %rcx, %rbx
        /* fall through: RSP is still the application's */

/* leave exits to RBX with RDI, RSI, RSP and RBP. */
leave:  mov     $7, %eax
        xor     %edx, %edx
        xrstor  clean_state(%rip)
        xor     %ecx, %ecx
        xor     %edx, %edx
        xor     %r8d, %r8d
        xor     %r9d, %r9d
        xor     %r10d, %r10d
        xor     %r11d, %r11d
        xor     %r12d, %r12d
        xor     %r13d, %r13d
        xor     %r14d, %r14d
        xor     %r15d, %r15d
        cmp     %eax, %eax              /* flags that say nothing */
        mov     $4, %eax
        .byte   0x0f, 0x01, 0xd7        /* EEXIT */
        ud2
        .cfi_endproc

/* The application chose the flags: alignment checks off. */
clean_flags:
        pushfq
        andq    $~0x40000, (%rsp)
        popfq
        ret

/* uint32_t trts_ocall(int64_t index, void *ms): exits, and comes back here by
 * ORET with the status. */
        .globl  trts_ocall
        .hidden trts_ocall
        .type   trts_ocall, @function
trts_ocall:
        push    %rbp
        push    %rbx
        push    %r12
        push    %r13
        push    %r14
        push    %r15
        sub     $8, %rsp
        stmxcsr (%rsp)
        fnstcw  4(%rsp)
        pushq   %gs:LAST_SP
        mov     %rsp, %gs:LAST_SP
        mov     %gs:RETURN, %rbx
        mov     %gs:FIRST_GPR, %rdx
        mov     %gs:USP, %rsp
        mov     %rsp, GPR_USP(%rdx)
        mov     GPR_UBP(%rdx), %rbp
        incq    %gs:DEPTH
        jmp     leave

oreturn:
        cmpq    $0, %gs:DEPTH
        je      refuse
        mov     %gs:LAST_SP, %rsp
        decq    %gs:DEPTH
        call    clean_flags
        mov     %gs:FIRST_GPR, %rdx
        mov     %gs:USP, %rax           /* what sgx_ocalloc took is still taken */
        mov     %rax, GPR_USP(%rdx)
        popq    %gs:LAST_SP
        ldmxcsr (%rsp)
        fldcw   4(%rsp)
        add     $8, %rsp
        pop     %r15
        pop     %r14
        pop     %r13
        pop     %r12
        pop     %rbx
        pop     %rbp
        mov     %esi, %eax
        ret

/* void trts_continue(const cpu_context *c): all registers from c. */
        .globl  trts_continue
        .hidden trts_continue
trts_continue:
        mov     32(%rdi), %rax          /* RSP there; flags and RIP go below its red zone */
        sub     $128 + 24, %rax
        mov     136(%rdi), %rcx
        mov     %rcx, 16(%rax)
        mov     128(%rdi), %rcx
        mov     %rcx, 8(%rax)
        mov     56(%rdi), %rcx
        mov     %rcx, (%rax)
        mov     24(%rdi), %rbx
        mov     40(%rdi), %rbp
        mov     48(%rdi), %rsi
        mov     64(%rdi), %r8
        mov     72(%rdi), %r9
        mov     80(%rdi), %r10
        mov     88(%rdi), %r11
        mov     96(%rdi), %r12
        mov     104(%rdi), %r13
        mov     112(%rdi), %r14
        mov     120(%rdi), %r15
        mov     8(%rdi), %rcx
        mov     16(%rdi), %rdx
        mov     %rax, %rsp
        mov     (%rdi), %rax
        pop     %rdi
        popfq
        ret     $128

/* What XRSTOR makes of it: initial state, MXCSR at its default. */
        .section .rodata
        .balign 64
clean_state:
        .zero   24
        .long   0x1f80, 0xffff
        .zero   1024 - 32

/* Room for the signer. */
        .section .note.sgxmeta, "", @note
        .long   13, 0x6000, 1
        .asciz  "sgx_metadata"
        .zero   0x6000

        .section .note.GNU-stack, "", @progbits
