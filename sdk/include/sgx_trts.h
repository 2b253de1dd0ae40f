/* SPDX-License-Identifier: Apache-2.0 */
/* The trusted runtime: where memory lies, and random numbers. */
#ifndef HOLDFAST_SGX_TRTS_H
#define HOLDFAST_SGX_TRTS_H

#include <stddef.h>
#include <stdint.h>

#include "sgx_defs.h"
#include "sgx_error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* 1 if all bytes lie in the enclave, else 0; also 0 if the range wraps around. */
int SGXAPI sgx_is_within_enclave(const void *addr, size_t size);

/* 1 if no byte lies in the enclave, else 0; also 0 if the range wraps around. */
int SGXAPI sgx_is_outside_enclave(const void *addr, size_t size);

/* 1 after the enclave has ended itself because of an error that cannot be mended. */
int SGXAPI sgx_is_enclave_crashed(void);

/* Random bytes of the processor (RDRAND). */
sgx_status_t SGXAPI sgx_read_rand(unsigned char *rand, size_t length_in_bytes);

#ifdef __cplusplus
}
#endif

#endif
