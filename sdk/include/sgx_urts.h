/* SPDX-License-Identifier: Apache-2.0 */
/* The application's side: make and destroy enclaves. */
#ifndef HOLDFAST_SGX_URTS_H
#define HOLDFAST_SGX_URTS_H

#include <stddef.h>

#include "sgx_attributes.h"
#include "sgx_defs.h"
#include "sgx_eid.h"
#include "sgx_error.h"
#include "sgx_report.h"

/* The debug argument of sgx_create_enclave, by kind of build. */
#if !defined(NDEBUG) || defined(EDEBUG)
#define SGX_DEBUG_FLAG 1
#else
#define SGX_DEBUG_FLAG 0
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef uint8_t sgx_launch_token_t[1024]; /* nobody needs one */

sgx_status_t SGXAPI sgx_create_enclave(const char *file_name, const int debug, sgx_launch_token_t *launch_token, int *launch_token_updated,
                                       sgx_enclave_id_t *enclave_id, sgx_misc_attribute_t *misc_attr);
sgx_status_t SGXAPI sgx_destroy_enclave(const sgx_enclave_id_t enclave_id);

/* Whom a report for this enclave is made for. */
sgx_status_t SGXAPI sgx_get_target_info(const sgx_enclave_id_t enclave_id, sgx_target_info_t *target_info);

#ifdef __cplusplus
}
#endif

#endif
