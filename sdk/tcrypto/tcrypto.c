/* SPDX-License-Identifier: Apache-2.0 */
/* The SDK's names for what Mbed TLS does. */
#include "sgx_tcrypto.h"

#include <mbedtls/cmac.h>
#include <mbedtls/gcm.h>
#include <mbedtls/platform_util.h>
#include <mbedtls/sha256.h>
#include <stdlib.h>

sgx_status_t sgx_sha256_msg(const uint8_t *src, uint32_t n, sgx_sha256_hash_t *hash)
{
	if ((src == NULL && n > 0) || hash == NULL)
		return SGX_ERROR_INVALID_PARAMETER;
	return mbedtls_sha256_ret(src, n, *hash, 0) == 0 ? SGX_SUCCESS : SGX_ERROR_UNEXPECTED;
}

sgx_status_t sgx_sha256_init(sgx_sha_state_handle_t *h)
{
	if (h == NULL)
		return SGX_ERROR_INVALID_PARAMETER;
	mbedtls_sha256_context *c = malloc(sizeof *c);
	if (c == NULL)
		return SGX_ERROR_OUT_OF_MEMORY;
	mbedtls_sha256_init(c);
	if (mbedtls_sha256_starts_ret(c, 0) != 0) {
		free(c);
		return SGX_ERROR_UNEXPECTED;
	}
	*h = c;
	return SGX_SUCCESS;
}

sgx_status_t sgx_sha256_update(const uint8_t *src, uint32_t n, sgx_sha_state_handle_t h)
{
	if (src == NULL || n == 0 || h == NULL)
		return SGX_ERROR_INVALID_PARAMETER;
	return mbedtls_sha256_update_ret(h, src, n) == 0 ? SGX_SUCCESS : SGX_ERROR_UNEXPECTED;
}

/* The hash so far: more may follow. */
sgx_status_t sgx_sha256_get_hash(sgx_sha_state_handle_t h, sgx_sha256_hash_t *hash)
{
	if (h == NULL || hash == NULL)
		return SGX_ERROR_INVALID_PARAMETER;
	mbedtls_sha256_context c;
	mbedtls_sha256_init(&c);
	mbedtls_sha256_clone(&c, h);
	int e = mbedtls_sha256_finish_ret(&c, *hash);
	mbedtls_sha256_free(&c);
	return e == 0 ? SGX_SUCCESS : SGX_ERROR_UNEXPECTED;
}

sgx_status_t sgx_sha256_close(sgx_sha_state_handle_t h)
{
	if (h == NULL)
		return SGX_ERROR_INVALID_PARAMETER;
	mbedtls_sha256_free(h); /* zeroes it */
	free(h);
	return SGX_SUCCESS;
}

static int wrong(const void *key, const void *src, uint32_t n, const void *dst, const void *iv, uint32_t iv_len, const void *aad, uint32_t aad_len, const void *mac)
{
	return key == NULL || mac == NULL || iv == NULL || iv_len != SGX_AESGCM_IV_SIZE || (n > 0 && (src == NULL || dst == NULL)) || (aad_len > 0 && aad == NULL) || (n == 0 && aad_len == 0);
}

sgx_status_t sgx_rijndael128GCM_encrypt(const sgx_aes_gcm_128bit_key_t *key, const uint8_t *src, uint32_t n, uint8_t *dst, const uint8_t *iv, uint32_t iv_len, const uint8_t *aad, uint32_t aad_len, sgx_aes_gcm_128bit_tag_t *mac)
{
	if (wrong(key, src, n, dst, iv, iv_len, aad, aad_len, mac))
		return SGX_ERROR_INVALID_PARAMETER;
	mbedtls_gcm_context c;
	mbedtls_gcm_init(&c);
	int e = mbedtls_gcm_setkey(&c, MBEDTLS_CIPHER_ID_AES, *key, 128);
	if (e == 0)
		e = mbedtls_gcm_crypt_and_tag(&c, MBEDTLS_GCM_ENCRYPT, n, iv, iv_len, aad, aad_len, src, dst, SGX_AESGCM_MAC_SIZE, *mac);
	mbedtls_gcm_free(&c);
	return e == 0 ? SGX_SUCCESS : SGX_ERROR_UNEXPECTED;
}

sgx_status_t sgx_rijndael128GCM_decrypt(const sgx_aes_gcm_128bit_key_t *key, const uint8_t *src, uint32_t n, uint8_t *dst, const uint8_t *iv, uint32_t iv_len, const uint8_t *aad, uint32_t aad_len, const sgx_aes_gcm_128bit_tag_t *mac)
{
	if (wrong(key, src, n, dst, iv, iv_len, aad, aad_len, mac))
		return SGX_ERROR_INVALID_PARAMETER;
	mbedtls_gcm_context c;
	mbedtls_gcm_init(&c);
	int e = mbedtls_gcm_setkey(&c, MBEDTLS_CIPHER_ID_AES, *key, 128);
	if (e == 0)
		e = mbedtls_gcm_auth_decrypt(&c, n, iv, iv_len, aad, aad_len, *mac, SGX_AESGCM_MAC_SIZE, src, dst);
	mbedtls_gcm_free(&c);
	if (e == MBEDTLS_ERR_GCM_AUTH_FAILED)
		return SGX_ERROR_MAC_MISMATCH;
	return e == 0 ? SGX_SUCCESS : SGX_ERROR_UNEXPECTED;
}

sgx_status_t sgx_rijndael128_cmac_msg(const sgx_cmac_128bit_key_t *key, const uint8_t *src, uint32_t n, sgx_cmac_128bit_tag_t *mac)
{
	if (key == NULL || src == NULL || mac == NULL)
		return SGX_ERROR_INVALID_PARAMETER;
	return mbedtls_cipher_cmac(mbedtls_cipher_info_from_type(MBEDTLS_CIPHER_AES_128_ECB), *key, 128, src, n, *mac) == 0 ? SGX_SUCCESS : SGX_ERROR_UNEXPECTED;
}

/* Debian's build of Mbed TLS calls the checked variants of the C library. */
void *__memcpy_chk(void *to, const void *from, size_t n, size_t room);
void *__memset_chk(void *to, int c, size_t n, size_t room);
void *__memcpy_chk(void *to, const void *from, size_t n, size_t room)
{
	if (n > room)
		abort();
	return __builtin_memcpy(to, from, n);
}
void *__memset_chk(void *to, int c, size_t n, size_t room)
{
	if (n > room)
		abort();
	return __builtin_memset(to, c, n);
}

/* Whether there are AES instructions (build.sh gives the question this name): each
 * processor with SGX has them, and an enclave may not ask CPUID. */
int holdfast_aesni(unsigned what);
int holdfast_aesni(unsigned what) { return (void)what, 1; }
