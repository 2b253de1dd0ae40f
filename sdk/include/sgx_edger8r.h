/* SPDX-License-Identifier: Apache-2.0 */
/* What the code that `holdfast enclave edger8r` makes calls. */
#ifndef HOLDFAST_SGX_EDGER8R_H
#define HOLDFAST_SGX_EDGER8R_H

#include <stddef.h>

#include "sgx_defs.h"
#include "sgx_eid.h"
#include "sgx_error.h"

#ifdef __cplusplus
#define SGX_EXTERNC extern "C"
extern "C" {
#else
#define SGX_EXTERNC
#endif

/* In the application: ECALL number index with the marshalling structure ms. */
sgx_status_t SGXAPI sgx_ecall(const sgx_enclave_id_t eid, const int index, const void *ocall_table, void *ms);
sgx_status_t SGXAPI sgx_ecall_switchless(const sgx_enclave_id_t eid, const int index, const void *ocall_table, void *ms);

/* In the enclave: OCALL number index. */
sgx_status_t SGXAPI sgx_ocall(const unsigned int index, void *ms);
sgx_status_t SGXAPI sgx_ocall_switchless(const unsigned int index, void *ms);

/* In the enclave: size bytes on the application's stack, until sgx_ocfree; NULL
 * where there is no room. */
void *SGXAPI sgx_ocalloc(size_t size);
void SGXAPI sgx_ocfree(void);

#ifdef __cplusplus
}
#endif

#endif
