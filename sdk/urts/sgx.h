/* SPDX-License-Identifier: Apache-2.0 */
/* The words of Intel's SDK that an application and this library exchange: names,
 * numbers and layouts are those of linux-sgx (common/inc/sgx_error.h, sgx_urts.h,
 * sgx_report.h, internal/routine.h), so that built applications fit. */
#ifndef HOLDFAST_SGX_H
#define HOLDFAST_SGX_H

#include <stddef.h>
#include <stdint.h>

typedef uint32_t sgx_status_t;
typedef uint64_t sgx_enclave_id_t;
typedef uint8_t sgx_launch_token_t[1024];

enum {
	SGX_SUCCESS = 0x0000,
	SGX_ERROR_UNEXPECTED = 0x0001,
	SGX_ERROR_INVALID_PARAMETER = 0x0002,
	SGX_ERROR_OUT_OF_MEMORY = 0x0003,
	SGX_ERROR_ENCLAVE_LOST = 0x0004,
	SGX_ERROR_INVALID_STATE = 0x0005,
	SGX_ERROR_FEATURE_NOT_SUPPORTED = 0x0008,
	SGX_ERROR_INVALID_FUNCTION = 0x1001,
	SGX_ERROR_OUT_OF_TCS = 0x1003,
	SGX_ERROR_ENCLAVE_CRASHED = 0x1006,
	SGX_ERROR_INVALID_ENCLAVE = 0x2001,
	SGX_ERROR_INVALID_ENCLAVE_ID = 0x2002,
	SGX_ERROR_NO_DEVICE = 0x2006,
	SGX_ERROR_MEMORY_MAP_CONFLICT = 0x2007,
	SGX_ERROR_INVALID_METADATA = 0x2009,
	SGX_ERROR_DEVICE_BUSY = 0x200c,
	SGX_ERROR_ENCLAVE_FILE_ACCESS = 0x200f,
	SGX_ERROR_NO_PRIVILEGE = 0x5002,
	SGX_ERROR_PCL_NOT_ENCRYPTED = 0x6002,
};

typedef struct {
	uint64_t flags;
	uint64_t xfrm;
} sgx_attributes_t;

typedef struct {
	sgx_attributes_t secs_attr;
	uint32_t misc_select;
} sgx_misc_attribute_t;

typedef struct {
	uint8_t bytes[512];
} sgx_target_info_t;

/* OCALL table that edger8r makes. */
typedef sgx_status_t (*sgx_ocall_t)(void *ms);
typedef struct {
	uint32_t count;
	sgx_ocall_t ocall[];
} sgx_ocall_table_t;

/* Features of sgx_create_enclave_ex, as bits. */
enum { SGX_EX_PCL = 1, SGX_EX_SWITCHLESS = 2, SGX_EX_KSS = 4, SGX_EX_ALL = 7, SGX_EX_COUNT = 32 };

#endif
