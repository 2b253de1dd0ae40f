/* SPDX-License-Identifier: Apache-2.0 */
/* Sealing: data that only this enclave, or its author's, reads again on this
 * machine. The layout is that of Intel's library. */
#ifndef HOLDFAST_SGX_TSEAL_H
#define HOLDFAST_SGX_TSEAL_H

#include <stddef.h>
#include <stdint.h>

#include "sgx_defs.h"
#include "sgx_error.h"
#include "sgx_key.h"

#define SGX_SEAL_TAG_SIZE 16
#define SGX_SEAL_IV_SIZE 12

typedef struct _aes_gcm_data_t {
	uint32_t payload_size;
	uint8_t reserved[12];
	uint8_t payload_tag[SGX_SEAL_TAG_SIZE];
	uint8_t payload[]; /* encrypted text, then additional text */
} sgx_aes_gcm_data_t;

typedef struct _sealed_data_t {
	sgx_key_request_t key_request;
	uint32_t plain_text_offset; /* of the additional text in the payload */
	uint8_t reserved[12];
	sgx_aes_gcm_data_t aes_data;
} sgx_sealed_data_t;

#ifdef __cplusplus
extern "C" {
#endif

/* Sizes in bytes; UINT32_MAX if there is none. */
uint32_t sgx_calc_sealed_data_size(const uint32_t add_mac_txt_size, const uint32_t txt_encrypt_size);
uint32_t sgx_get_add_mac_txt_len(const sgx_sealed_data_t *p_sealed_data);
uint32_t sgx_get_encrypt_txt_len(const sgx_sealed_data_t *p_sealed_data);

/* Sealed for all enclaves of the author with this product number, of this version
 * and later ones. */
sgx_status_t SGXAPI sgx_seal_data(const uint32_t additional_MACtext_length, const uint8_t *p_additional_MACtext, const uint32_t text2encrypt_length,
                                  const uint8_t *p_text2encrypt, const uint32_t sealed_data_size, sgx_sealed_data_t *p_sealed_data);

/* key_policy: SGX_KEYPOLICY_MRENCLAVE for this enclave alone. attribute_mask must
 * contain INITTED and DEBUG. */
sgx_status_t SGXAPI sgx_seal_data_ex(const uint16_t key_policy, const sgx_attributes_t attribute_mask, const sgx_misc_select_t misc_mask,
                                     const uint32_t additional_MACtext_length, const uint8_t *p_additional_MACtext, const uint32_t text2encrypt_length,
                                     const uint8_t *p_text2encrypt, const uint32_t sealed_data_size, sgx_sealed_data_t *p_sealed_data);

/* The lengths say how much room there is, and then how much came. */
sgx_status_t SGXAPI sgx_unseal_data(const sgx_sealed_data_t *p_sealed_data, uint8_t *p_additional_MACtext, uint32_t *p_additional_MACtext_length,
                                    uint8_t *p_decrypted_text, uint32_t *p_decrypted_text_length);

#ifdef __cplusplus
}
#endif

#endif
