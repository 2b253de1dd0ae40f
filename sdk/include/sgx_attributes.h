/* SPDX-License-Identifier: Apache-2.0 */
/* ATTRIBUTES and MISCSELECT (Intel SDM, volume 3D). */
#ifndef HOLDFAST_SGX_ATTRIBUTES_H
#define HOLDFAST_SGX_ATTRIBUTES_H

#include <stdint.h>

#define SGX_FLAGS_INITTED 0x0000000000000001ULL
#define SGX_FLAGS_DEBUG 0x0000000000000002ULL
#define SGX_FLAGS_MODE64BIT 0x0000000000000004ULL
#define SGX_FLAGS_PROVISION_KEY 0x0000000000000010ULL
#define SGX_FLAGS_EINITTOKEN_KEY 0x0000000000000020ULL
#define SGX_FLAGS_KSS 0x0000000000000080ULL
#define SGX_FLAGS_AEX_NOTIFY 0x0000000000000400ULL
#define SGX_XFRM_LEGACY 0x0000000000000003ULL
#define SGX_XFRM_AVX 0x0000000000000006ULL

typedef struct _attributes_t {
	uint64_t flags;
	uint64_t xfrm;
} sgx_attributes_t;

typedef uint32_t sgx_misc_select_t;

typedef struct _sgx_misc_attribute_t {
	sgx_attributes_t secs_attr;
	sgx_misc_select_t misc_select;
} sgx_misc_attribute_t;

#endif
