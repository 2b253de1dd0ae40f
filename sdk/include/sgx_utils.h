/* SPDX-License-Identifier: Apache-2.0 */
/* What an enclave asks the processor for: reports and keys. */
#ifndef HOLDFAST_SGX_UTILS_H
#define HOLDFAST_SGX_UTILS_H

#include "sgx_defs.h"
#include "sgx_error.h"
#include "sgx_key.h"
#include "sgx_report.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A report for a target (NULL: for nobody) with 64 bytes of data (NULL: zeros). All
 * pointers must lie in the enclave. */
sgx_status_t SGXAPI sgx_create_report(const sgx_target_info_t *target_info, const sgx_report_data_t *report_data, sgx_report_t *report);

/* This enclave's own report; NULL if the processor refuses. */
const sgx_report_t *SGXAPI sgx_self_report(void);

/* SGX_SUCCESS if the report was made for this enclave, on this machine, since the
 * monitor's start; SGX_ERROR_MAC_MISMATCH if not. (In libsgx_tcrypto.) */
sgx_status_t SGXAPI sgx_verify_report(const sgx_report_t *report);

/* EGETKEY. */
sgx_status_t SGXAPI sgx_get_key(const sgx_key_request_t *key_request, sgx_key_128bit_t *key);

#ifdef __cplusplus
}
#endif

#endif
