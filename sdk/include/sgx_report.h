/* SPDX-License-Identifier: Apache-2.0 */
/* REPORT and TARGETINFO (Intel SDM, volume 3D). */
#ifndef HOLDFAST_SGX_REPORT_H
#define HOLDFAST_SGX_REPORT_H

#include <stdint.h>

#include "sgx_attributes.h"
#include "sgx_key.h"

#define SGX_HASH_SIZE 32
#define SGX_MAC_SIZE 16
#define SGX_REPORT_DATA_SIZE 64
#define SGX_ISVEXT_PROD_ID_SIZE 16
#define SGX_ISV_FAMILY_ID_SIZE 16

typedef struct _sgx_measurement_t {
	uint8_t m[SGX_HASH_SIZE];
} sgx_measurement_t;

typedef uint8_t sgx_mac_t[SGX_MAC_SIZE];

typedef struct _sgx_report_data_t {
	uint8_t d[SGX_REPORT_DATA_SIZE];
} sgx_report_data_t;

typedef uint16_t sgx_prod_id_t;
typedef uint8_t sgx_isvext_prod_id_t[SGX_ISVEXT_PROD_ID_SIZE];
typedef uint8_t sgx_isvfamily_id_t[SGX_ISV_FAMILY_ID_SIZE];

typedef struct _target_info_t { /* 512 bytes */
	sgx_measurement_t mr_enclave;
	sgx_attributes_t attributes;
	uint8_t reserved1[2];
	sgx_config_svn_t config_svn;
	sgx_misc_select_t misc_select;
	uint8_t reserved2[8];
	sgx_config_id_t config_id;
	uint8_t reserved3[384];
} sgx_target_info_t;

typedef struct _report_body_t { /* 384 bytes */
	sgx_cpu_svn_t cpu_svn;
	sgx_misc_select_t misc_select;
	uint8_t reserved1[12];
	sgx_isvext_prod_id_t isv_ext_prod_id;
	sgx_attributes_t attributes;
	sgx_measurement_t mr_enclave;
	uint8_t reserved2[32];
	sgx_measurement_t mr_signer;
	uint8_t reserved3[32];
	sgx_config_id_t config_id;
	sgx_prod_id_t isv_prod_id;
	sgx_isv_svn_t isv_svn;
	sgx_config_svn_t config_svn;
	uint8_t reserved4[42];
	sgx_isvfamily_id_t isv_family_id;
	sgx_report_data_t report_data;
} sgx_report_body_t;

typedef struct _report_t { /* 432 bytes */
	sgx_report_body_t body;
	sgx_key_id_t key_id;
	sgx_mac_t mac;
} sgx_report_t;

#endif
