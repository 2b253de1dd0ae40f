/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOLDFAST_SGX_EID_H
#define HOLDFAST_SGX_EID_H

#include <stdint.h>

typedef uint64_t sgx_enclave_id_t;

#endif
