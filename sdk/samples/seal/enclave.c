/* SPDX-License-Identifier: Apache-2.0 */
/* Sealed data, reports from enclave to enclave, and the cryptography below. */
#include <stdlib.h>
#include <string.h>

#include "seal_t.h"
#include "sgx_tcrypto.h"
#include "sgx_tseal.h"
#include "sgx_utils.h"

static const uint8_t label[] = "version 1";

uint32_t ecall_sealed_size(uint32_t additional, uint32_t text)
{
	return sgx_calc_sealed_data_size(additional == 0 ? 0 : (uint32_t)sizeof label, text);
}

uint32_t ecall_seal(const uint8_t *text, uint32_t n, uint8_t *sealed, uint32_t size, int own)
{
	const sgx_attributes_t mask = {SGX_FLAGS_INITTED | SGX_FLAGS_DEBUG, 0};
	if (own)
		return sgx_seal_data_ex(SGX_KEYPOLICY_MRENCLAVE, mask, 0, sizeof label, label, n, text, size, (sgx_sealed_data_t *)sealed);
	return sgx_seal_data(sizeof label, label, n, text, size, (sgx_sealed_data_t *)sealed);
}

uint32_t ecall_unseal(const uint8_t *sealed, uint32_t size, uint8_t *text, uint32_t n)
{
	uint8_t also[sizeof label];
	uint32_t an = sizeof also, tn = n;
	const sgx_sealed_data_t *d = (const sgx_sealed_data_t *)sealed;
	/* The application's word for the sizes is checked against what came. */
	if (size < sizeof *d || d->aes_data.payload_size != size - sizeof *d)
		return SGX_ERROR_INVALID_PARAMETER;
	sgx_status_t s = sgx_unseal_data(d, also, &an, text, &tn);
	if (s == SGX_SUCCESS && (an != sizeof label || memcmp(also, label, an) != 0 || tn != n))
		return SGX_ERROR_UNEXPECTED;
	return s;
}

uint32_t ecall_report(const uint8_t *target, uint8_t *report)
{
	sgx_target_info_t t;
	sgx_report_data_t d = {{42}};
	memcpy(&t, target, sizeof t);
	return sgx_create_report(&t, &d, (sgx_report_t *)report);
}

uint32_t ecall_verify(const uint8_t *report)
{
	sgx_status_t s = sgx_verify_report((const sgx_report_t *)report);
	return s == SGX_SUCCESS && ((const sgx_report_t *)report)->body.report_data.d[0] != 42 ? SGX_ERROR_UNEXPECTED : s;
}

#define WANT(c) do { if (!(c)) return __LINE__; } while (0)
int ecall_crypto(void)
{
	/* FIPS 180-4, "abc". */
	static const uint8_t abc[32] = {0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea, 0x41, 0x41, 0x40, 0xde, 0x5d, 0xae, 0x22, 0x23,
		0xb0, 0x03, 0x61, 0xa3, 0x96, 0x17, 0x7a, 0x9c, 0xb4, 0x10, 0xff, 0x61, 0xf2, 0x00, 0x15, 0xad};
	sgx_sha256_hash_t h;
	sgx_sha_state_handle_t s;
	WANT(sgx_sha256_msg((const uint8_t *)"abc", 3, &h) == SGX_SUCCESS && memcmp(h, abc, 32) == 0);
	WANT(sgx_sha256_init(&s) == SGX_SUCCESS && sgx_sha256_update((const uint8_t *)"a", 1, s) == SGX_SUCCESS && sgx_sha256_get_hash(s, &h) == SGX_SUCCESS);
	WANT(sgx_sha256_update((const uint8_t *)"bc", 2, s) == SGX_SUCCESS && sgx_sha256_get_hash(s, &h) == SGX_SUCCESS && memcmp(h, abc, 32) == 0 && sgx_sha256_close(s) == SGX_SUCCESS);
	/* RFC 4493, example 2. */
	static const uint8_t key[16] = {0x2b, 0x7e, 0x15, 0x16, 0x28, 0xae, 0xd2, 0xa6, 0xab, 0xf7, 0x15, 0x88, 0x09, 0xcf, 0x4f, 0x3c};
	static const uint8_t text[16] = {0x6b, 0xc1, 0xbe, 0xe2, 0x2e, 0x40, 0x9f, 0x96, 0xe9, 0x3d, 0x7e, 0x11, 0x73, 0x93, 0x17, 0x2a};
	static const uint8_t cmac[16] = {0x07, 0x0a, 0x16, 0xb4, 0x6b, 0x4d, 0x41, 0x44, 0xf7, 0x9b, 0xdd, 0x9d, 0xd0, 0x4a, 0x28, 0x7c};
	sgx_cmac_128bit_tag_t mac;
	WANT(sgx_rijndael128_cmac_msg(&key, text, 16, &mac) == SGX_SUCCESS && memcmp(mac, cmac, 16) == 0);
	/* The GCM specification's test case 2: key, IV and text are zero. */
	static const uint8_t zero[16], cipher[16] = {0x03, 0x88, 0xda, 0xce, 0x60, 0xb6, 0xa3, 0x92, 0xf3, 0x28, 0xc2, 0xb9, 0x71, 0xb2, 0xfe, 0x78};
	static const uint8_t tag[16] = {0xab, 0x6e, 0x47, 0xd4, 0x2c, 0xec, 0x13, 0xbd, 0xf5, 0x3a, 0x67, 0xb2, 0x12, 0x57, 0xbd, 0xdf};
	uint8_t out[16], back[16];
	WANT(sgx_rijndael128GCM_encrypt(&zero, zero, 16, out, zero, 12, NULL, 0, &mac) == SGX_SUCCESS && memcmp(out, cipher, 16) == 0 && memcmp(mac, tag, 16) == 0);
	WANT(sgx_rijndael128GCM_decrypt(&zero, out, 16, back, zero, 12, NULL, 0, &mac) == SGX_SUCCESS && memcmp(back, zero, 16) == 0);
	mac[3] ^= 1;
	WANT(sgx_rijndael128GCM_decrypt(&zero, out, 16, back, zero, 12, NULL, 0, &mac) == SGX_ERROR_MAC_MISMATCH);
	WANT(sgx_rijndael128GCM_encrypt(&zero, zero, 16, out, zero, 16, NULL, 0, &mac) == SGX_ERROR_INVALID_PARAMETER);
	WANT(sgx_calc_sealed_data_size(UINT32_MAX, 1) == UINT32_MAX);
	return 0;
}
