/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "seal_u.h"
#include "sgx_urts.h"

#define CHECK(c) do { if (!(c)) { fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #c); exit(1); } } while (0)
#define OK(c) do { sgx_status_t s_ = (c); if (s_ != SGX_SUCCESS) { fprintf(stderr, "%s:%d: %s: status %#x\n", __FILE__, __LINE__, #c, s_); exit(1); } } while (0)

static sgx_enclave_id_t eid;

static void create(void) { OK(sgx_create_enclave("seal.signed.so", SGX_DEBUG_FLAG, NULL, NULL, &eid, NULL)); }

int main(void)
{
	create();
	int line = 0;
	OK(ecall_crypto(eid, &line));
	if (line != 0)
		fprintf(stderr, "ecall_crypto: line %d of enclave.c\n", line);
	CHECK(line == 0);
	const char secret[] = "what only enclaves of this author read";
	uint8_t text[sizeof secret];
	uint32_t size = 0, s = 0;
	OK(ecall_sealed_size(eid, &size, 1, sizeof secret));
	for (int own = 0; own < 2; own++) {
		uint8_t *sealed = calloc(2, size), *again = sealed + size;
		OK(ecall_seal(eid, &s, (const uint8_t *)secret, sizeof secret, sealed, size, own));
		CHECK(s == SGX_SUCCESS);
		OK(ecall_seal(eid, &s, (const uint8_t *)secret, sizeof secret, again, size, own));
		CHECK(s == SGX_SUCCESS && memcmp(sealed, again, size) != 0);
		for (uint32_t i = 0; i + 8 < size; i++)
			CHECK(memcmp(sealed + i, secret, 8) != 0);
		OK(sgx_destroy_enclave(eid));
		create(); /* later, in another enclave from the same file */
		OK(ecall_unseal(eid, &s, sealed, size, text, sizeof text));
		CHECK(s == SGX_SUCCESS && strcmp((char *)text, secret) == 0);
		/* Changed anywhere that counts: refused. */
		const uint32_t at[] = {8, 40, 528 + 16, 560, size - 1};
		for (size_t i = 0; i < sizeof at / sizeof at[0]; i++) {
			memset(text, 0, sizeof text);
			sealed[at[i]] ^= 1;
			OK(ecall_unseal(eid, &s, sealed, size, text, sizeof text));
			CHECK(s != SGX_SUCCESS && strcmp((char *)text, secret) != 0);
			sealed[at[i]] ^= 1;
		}
		OK(ecall_unseal(eid, &s, sealed, size - 1, text, sizeof text));
		CHECK(s == SGX_ERROR_INVALID_PARAMETER);
		free(sealed);
	}
	/* A report for another enclave: it verifies there, changed it does not. */
	sgx_enclave_id_t other = eid;
	create();
	sgx_target_info_t target;
	uint8_t report[432];
	OK(sgx_get_target_info(other, &target));
	OK(ecall_report(eid, &s, (const uint8_t *)&target, report));
	CHECK(s == SGX_SUCCESS);
	OK(ecall_verify(other, &s, report));
	CHECK(s == SGX_SUCCESS);
	report[321] ^= 1;
	OK(ecall_verify(other, &s, report));
	CHECK(s == SGX_ERROR_MAC_MISMATCH);
	OK(sgx_destroy_enclave(eid));
	OK(sgx_destroy_enclave(other));
	printf("all right\n");
	return 0;
}
