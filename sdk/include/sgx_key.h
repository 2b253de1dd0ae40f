/* SPDX-License-Identifier: Apache-2.0 */
/* KEYREQUEST (Intel SDM, volume 3D, "KEYREQUEST"). */
#ifndef HOLDFAST_SGX_KEY_H
#define HOLDFAST_SGX_KEY_H

#include <stdint.h>

#include "sgx_attributes.h"

#define SGX_KEYSELECT_EINITTOKEN 0x0000
#define SGX_KEYSELECT_PROVISION 0x0001
#define SGX_KEYSELECT_PROVISION_SEAL 0x0002
#define SGX_KEYSELECT_REPORT 0x0003
#define SGX_KEYSELECT_SEAL 0x0004

#define SGX_KEYPOLICY_MRENCLAVE 0x0001
#define SGX_KEYPOLICY_MRSIGNER 0x0002
#define SGX_KEYPOLICY_NOISVPRODID 0x0004
#define SGX_KEYPOLICY_CONFIGID 0x0008
#define SGX_KEYPOLICY_ISVFAMILYID 0x0010
#define SGX_KEYPOLICY_ISVEXTPRODID 0x0020

#define SGX_KEYID_SIZE 32
#define SGX_CPUSVN_SIZE 16
#define SGX_CONFIGID_SIZE 64

typedef uint8_t sgx_key_128bit_t[16];
typedef uint16_t sgx_isv_svn_t;
typedef uint16_t sgx_config_svn_t;
typedef uint8_t sgx_config_id_t[SGX_CONFIGID_SIZE];

typedef struct _sgx_cpu_svn_t {
	uint8_t svn[SGX_CPUSVN_SIZE];
} sgx_cpu_svn_t;

typedef struct _sgx_key_id_t {
	uint8_t id[SGX_KEYID_SIZE];
} sgx_key_id_t;

#define SGX_KEY_REQUEST_RESERVED2_BYTES 434
typedef struct _key_request_t { /* 512 bytes */
	uint16_t key_name;
	uint16_t key_policy;
	sgx_isv_svn_t isv_svn;
	uint16_t reserved1;
	sgx_cpu_svn_t cpu_svn;
	sgx_attributes_t attribute_mask;
	sgx_key_id_t key_id;
	sgx_misc_select_t misc_mask;
	sgx_config_svn_t config_svn;
	uint8_t reserved2[SGX_KEY_REQUEST_RESERVED2_BYTES];
} sgx_key_request_t;

#endif
