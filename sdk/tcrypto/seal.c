/* SPDX-License-Identifier: Apache-2.0 */
/* Sealing, and checking reports. Each seal has a key of its own (a random key ID),
 * so that the IV is zero, as in Intel's library. */
#include "sgx_tseal.h"

#include <mbedtls/platform_util.h>
#include <string.h>

#include "sgx_tcrypto.h"
#include "sgx_trts.h"
#include "sgx_utils.h"

_Static_assert(sizeof(sgx_sealed_data_t) == 560, "layout of sealed data");

/* What a key is bound to by default: all flags that concern security. */
#define FLAGS_MASK 0xff0000000000000bULL
#define MISC_MASK 0xf0000000U

static const uint8_t iv[SGX_SEAL_IV_SIZE];

uint32_t sgx_calc_sealed_data_size(const uint32_t additional, const uint32_t encrypted)
{
	uint32_t n;
	if (__builtin_add_overflow(additional, encrypted, &n) || __builtin_add_overflow(n, (uint32_t)sizeof(sgx_sealed_data_t), &n))
		return UINT32_MAX;
	return n;
}

uint32_t sgx_get_add_mac_txt_len(const sgx_sealed_data_t *d)
{
	if (d == NULL || d->plain_text_offset > d->aes_data.payload_size)
		return UINT32_MAX;
	return d->aes_data.payload_size - d->plain_text_offset;
}

uint32_t sgx_get_encrypt_txt_len(const sgx_sealed_data_t *d)
{
	if (d == NULL || d->plain_text_offset > d->aes_data.payload_size)
		return UINT32_MAX;
	return d->plain_text_offset;
}

static int inside(const void *p, size_t n) { return p != NULL && sgx_is_within_enclave(p, n); }

sgx_status_t sgx_seal_data_ex(const uint16_t policy, const sgx_attributes_t mask, const sgx_misc_select_t misc, const uint32_t additional_n, const uint8_t *additional, const uint32_t n, const uint8_t *text, const uint32_t size, sgx_sealed_data_t *out)
{
	const uint64_t must = SGX_FLAGS_INITTED | SGX_FLAGS_DEBUG;
	uint32_t need = sgx_calc_sealed_data_size(additional_n, n);
	if (need == UINT32_MAX || size != need || n == 0 || !inside(text, n) || !inside(out, size) || (additional_n > 0) != (additional != NULL) ||
	    (additional != NULL && !inside(additional, additional_n)) || (policy & (SGX_KEYPOLICY_MRENCLAVE | SGX_KEYPOLICY_MRSIGNER)) == 0 || (mask.flags & must) != must)
		return SGX_ERROR_INVALID_PARAMETER;
	const sgx_report_t *own = sgx_self_report();
	if (own == NULL)
		return SGX_ERROR_UNEXPECTED;
	sgx_key_request_t q;
	sgx_key_128bit_t key;
	memset(&q, 0, sizeof q);
	q.key_name = SGX_KEYSELECT_SEAL;
	q.key_policy = policy;
	q.isv_svn = own->body.isv_svn;
	q.cpu_svn = own->body.cpu_svn;
	q.config_svn = own->body.config_svn;
	q.attribute_mask = mask;
	q.misc_mask = misc;
	sgx_status_t s = sgx_read_rand(q.key_id.id, sizeof q.key_id.id);
	if (s != SGX_SUCCESS || (s = sgx_get_key(&q, &key)) != SGX_SUCCESS)
		return s;
	memset(out, 0, size);
	out->key_request = q;
	out->plain_text_offset = n;
	out->aes_data.payload_size = n + additional_n;
	s = sgx_rijndael128GCM_encrypt((const sgx_aes_gcm_128bit_key_t *)&key, text, n, out->aes_data.payload, iv, sizeof iv, additional, additional_n, &out->aes_data.payload_tag);
	if (s == SGX_SUCCESS && additional_n > 0)
		memcpy(out->aes_data.payload + n, additional, additional_n);
	else if (s != SGX_SUCCESS)
		memset(out, 0, size);
	mbedtls_platform_zeroize(key, sizeof key);
	return s;
}

sgx_status_t sgx_seal_data(const uint32_t additional_n, const uint8_t *additional, const uint32_t n, const uint8_t *text, const uint32_t size, sgx_sealed_data_t *out)
{
	const sgx_attributes_t mask = {FLAGS_MASK, 0};
	return sgx_seal_data_ex(SGX_KEYPOLICY_MRSIGNER, mask, MISC_MASK, additional_n, additional, n, text, size, out);
}

sgx_status_t sgx_unseal_data(const sgx_sealed_data_t *d, uint8_t *additional, uint32_t *additional_n, uint8_t *text, uint32_t *n)
{
	if (!inside(d, sizeof *d) || !inside(n, sizeof *n))
		return SGX_ERROR_INVALID_PARAMETER;
	uint32_t tn = sgx_get_encrypt_txt_len(d), an = sgx_get_add_mac_txt_len(d);
	if (tn == UINT32_MAX || tn == 0 || an == UINT32_MAX || !inside(d, sizeof *d + (size_t)d->aes_data.payload_size) || *n < tn || !inside(text, tn) ||
	    (an > 0 && (!inside(additional_n, sizeof *additional_n) || *additional_n < an || !inside(additional, an))))
		return SGX_ERROR_INVALID_PARAMETER;
	sgx_key_128bit_t key;
	sgx_status_t s = sgx_get_key(&d->key_request, &key);
	if (s != SGX_SUCCESS)
		return s == SGX_ERROR_INVALID_CPUSVN || s == SGX_ERROR_INVALID_ISVSVN ? s : SGX_ERROR_MAC_MISMATCH;
	s = sgx_rijndael128GCM_decrypt((const sgx_aes_gcm_128bit_key_t *)&key, d->aes_data.payload, tn, text, iv, sizeof iv, an > 0 ? d->aes_data.payload + tn : NULL, an, &d->aes_data.payload_tag);
	mbedtls_platform_zeroize(key, sizeof key);
	if (s != SGX_SUCCESS)
		return s;
	if (an > 0)
		memcpy(additional, d->aes_data.payload + tn, an);
	if (additional_n != NULL && inside(additional_n, sizeof *additional_n))
		*additional_n = an;
	*n = tn;
	return SGX_SUCCESS;
}

sgx_status_t sgx_verify_report(const sgx_report_t *report)
{
	if (!inside(report, sizeof *report))
		return SGX_ERROR_INVALID_PARAMETER;
	sgx_key_request_t q;
	sgx_key_128bit_t key;
	sgx_cmac_128bit_tag_t mac;
	memset(&q, 0, sizeof q);
	q.key_name = SGX_KEYSELECT_REPORT;
	q.key_id = report->key_id;
	sgx_status_t s = sgx_get_key(&q, &key);
	if (s != SGX_SUCCESS)
		return s;
	s = sgx_rijndael128_cmac_msg((const sgx_cmac_128bit_key_t *)&key, (const uint8_t *)&report->body, sizeof report->body, &mac);
	mbedtls_platform_zeroize(key, sizeof key);
	if (s != SGX_SUCCESS)
		return s;
	unsigned differ = 0;
	for (size_t i = 0; i < sizeof mac; i++)
		differ |= mac[i] ^ report->mac[i];
	return differ == 0 ? SGX_SUCCESS : SGX_ERROR_MAC_MISMATCH;
}
