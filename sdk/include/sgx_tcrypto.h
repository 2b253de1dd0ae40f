/* SPDX-License-Identifier: Apache-2.0 */
/* Cryptography in the enclave, by Mbed TLS: SHA-256, AES-128 in GCM, CMAC. Other
 * functions of Intel's library are not there yet. Pointers must lie in the enclave;
 * that is the caller's duty, since the EDL code has copied what comes from outside. */
#ifndef HOLDFAST_SGX_TCRYPTO_H
#define HOLDFAST_SGX_TCRYPTO_H

#include <stdint.h>

#include "sgx_defs.h"
#include "sgx_error.h"

#define SGX_SHA256_HASH_SIZE 32
#define SGX_AESGCM_IV_SIZE 12
#define SGX_AESGCM_KEY_SIZE 16
#define SGX_AESGCM_MAC_SIZE 16
#define SGX_CMAC_KEY_SIZE 16
#define SGX_CMAC_MAC_SIZE 16

typedef void *sgx_sha_state_handle_t;
typedef uint8_t sgx_sha256_hash_t[SGX_SHA256_HASH_SIZE];
typedef uint8_t sgx_aes_gcm_128bit_key_t[SGX_AESGCM_KEY_SIZE];
typedef uint8_t sgx_aes_gcm_128bit_tag_t[SGX_AESGCM_MAC_SIZE];
typedef uint8_t sgx_cmac_128bit_key_t[SGX_CMAC_KEY_SIZE];
typedef uint8_t sgx_cmac_128bit_tag_t[SGX_CMAC_MAC_SIZE];

#ifdef __cplusplus
extern "C" {
#endif

sgx_status_t SGXAPI sgx_sha256_msg(const uint8_t *p_src, uint32_t src_len, sgx_sha256_hash_t *p_hash);
sgx_status_t SGXAPI sgx_sha256_init(sgx_sha_state_handle_t *p_sha_handle);
sgx_status_t SGXAPI sgx_sha256_update(const uint8_t *p_src, uint32_t src_len, sgx_sha_state_handle_t sha_handle);
sgx_status_t SGXAPI sgx_sha256_get_hash(sgx_sha_state_handle_t sha_handle, sgx_sha256_hash_t *p_hash);
sgx_status_t SGXAPI sgx_sha256_close(sgx_sha_state_handle_t sha_handle);

/* iv_len is 12. Decryption of what was changed gives SGX_ERROR_MAC_MISMATCH and
 * zeros in p_dst. */
sgx_status_t SGXAPI sgx_rijndael128GCM_encrypt(const sgx_aes_gcm_128bit_key_t *p_key, const uint8_t *p_src, uint32_t src_len, uint8_t *p_dst, const uint8_t *p_iv,
                                               uint32_t iv_len, const uint8_t *p_aad, uint32_t aad_len, sgx_aes_gcm_128bit_tag_t *p_out_mac);
sgx_status_t SGXAPI sgx_rijndael128GCM_decrypt(const sgx_aes_gcm_128bit_key_t *p_key, const uint8_t *p_src, uint32_t src_len, uint8_t *p_dst, const uint8_t *p_iv,
                                               uint32_t iv_len, const uint8_t *p_aad, uint32_t aad_len, const sgx_aes_gcm_128bit_tag_t *p_in_mac);

sgx_status_t SGXAPI sgx_rijndael128_cmac_msg(const sgx_cmac_128bit_key_t *p_key, const uint8_t *p_src, uint32_t src_len, sgx_cmac_128bit_tag_t *p_mac);

#ifdef __cplusplus
}
#endif

#endif
