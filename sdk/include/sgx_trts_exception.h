/* SPDX-License-Identifier: Apache-2.0 */
/* Exceptions of enclave code, handled by enclave code. */
#ifndef HOLDFAST_SGX_TRTS_EXCEPTION_H
#define HOLDFAST_SGX_TRTS_EXCEPTION_H

#include <stddef.h>
#include <stdint.h>

#include "sgx_defs.h"

#define EXCEPTION_CONTINUE_SEARCH 0     /* ask the next handler */
#define EXCEPTION_CONTINUE_EXECUTION -1 /* go on with the registers as they are now */

typedef enum _sgx_exception_vector_t {
	SGX_EXCEPTION_VECTOR_DE = 0,
	SGX_EXCEPTION_VECTOR_DB = 1,
	SGX_EXCEPTION_VECTOR_BP = 3,
	SGX_EXCEPTION_VECTOR_BR = 5,
	SGX_EXCEPTION_VECTOR_UD = 6,
	SGX_EXCEPTION_VECTOR_GP = 13,
	SGX_EXCEPTION_VECTOR_PF = 14,
	SGX_EXCEPTION_VECTOR_MF = 16,
	SGX_EXCEPTION_VECTOR_AC = 17,
	SGX_EXCEPTION_VECTOR_XM = 19
} sgx_exception_vector_t;

typedef enum _sgx_exception_type_t {
	SGX_EXCEPTION_HARDWARE = 3,
	SGX_EXCEPTION_SOFTWARE = 6
} sgx_exception_type_t;

typedef struct _cpu_context_t {
	uint64_t rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8, r9, r10, r11, r12, r13, r14, r15, rflags, rip;
} sgx_cpu_context_t;

typedef struct _exception_info_t {
	sgx_cpu_context_t cpu_context;
	sgx_exception_vector_t exception_vector;
	sgx_exception_type_t exception_type;
} sgx_exception_info_t;

typedef int (*sgx_exception_handler_t)(sgx_exception_info_t *info);

#ifdef __cplusplus
extern "C" {
#endif

/* Adds a handler, before the others or behind them; the handle ends it again. NULL
 * if there is no memory or the handler lies outside. */
void *SGXAPI sgx_register_exception_handler(int is_first_handler, sgx_exception_handler_t handler);
int SGXAPI sgx_unregister_exception_handler(void *handle);

#ifdef __cplusplus
}
#endif

#endif
