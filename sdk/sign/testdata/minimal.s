# SPDX-License-Identifier: Apache-2.0
# An enclave that only the signer sees. Made by:
#   gcc -shared -nostdlib -Wl,-z,noexecstack,--build-id=none,-z,separate-code -o unsigned.so minimal.s && strip unsigned.so
        .text
        .globl  enclave_entry
        .type   enclave_entry, @function
enclave_entry:
        nop
        nop
        ud2
        nop
        .size   enclave_entry, . - enclave_entry
        .data
        .globl  g_global_data
        .type   g_global_data, @object
g_global_data:
        .quad   0x300000000
        .zero   1760
        .size   g_global_data, . - g_global_data
        .section .tbss, "awT", @nobits
        .zero   100
        .section .note.sgxmeta, "", @note
        .long   13, 0x6000, 1
        .asciz  "sgx_metadata"
        .zero   0x6000
        .section .note.GNU-stack, "", @progbits
