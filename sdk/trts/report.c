/* SPDX-License-Identifier: Apache-2.0 */
/* EREPORT and EGETKEY. Their operands have alignments of their own, so they are
 * copied; keys do not stay in the copies. */
#include <string.h>

#include "sgx_trts.h"
#include "sgx_utils.h"
#include "thread.h"

_Static_assert(sizeof(sgx_report_t) == 432 && sizeof(sgx_target_info_t) == 512 && sizeof(sgx_key_request_t) == 512, "SDM 3D");

sgx_status_t sgx_create_report(const sgx_target_info_t *target, const sgx_report_data_t *data, sgx_report_t *report)
{
	sgx_target_info_t t __attribute__((aligned(512)));
	sgx_report_t r __attribute__((aligned(512)));
	sgx_report_data_t d __attribute__((aligned(128)));
	if (report == NULL || !sgx_is_within_enclave(report, sizeof *report) || (target != NULL && !sgx_is_within_enclave(target, sizeof *target)) ||
	    (data != NULL && !sgx_is_within_enclave(data, sizeof *data)))
		return SGX_ERROR_INVALID_PARAMETER;
	memset(&t, 0, sizeof t);
	memset(&d, 0, sizeof d);
	memset(&r, 0, sizeof r);
	if (target != NULL)
		t = *target;
	if (data != NULL)
		d = *data;
	uint64_t rax = 0;
	__asm__ volatile(".byte 0x0f, 0x01, 0xd7" : "+a"(rax) : "b"(&t), "c"(&d), "d"(&r) : "memory", "cc");
	*report = r;
	return SGX_SUCCESS;
}

const sgx_report_t *sgx_self_report(void)
{
	static sgx_report_t own;
	static volatile int made;
	if (!made) {
		sgx_report_t r;
		if (sgx_create_report(NULL, NULL, &r) != SGX_SUCCESS)
			return NULL;
		own = r; /* the same for each thread that comes here */
		made = 1;
	}
	return &own;
}

sgx_status_t sgx_get_key(const sgx_key_request_t *request, sgx_key_128bit_t *key)
{
	sgx_key_request_t q __attribute__((aligned(512)));
	uint8_t k[16] __attribute__((aligned(16))) = {0};
	if (request == NULL || key == NULL || !sgx_is_within_enclave(request, sizeof *request) || !sgx_is_within_enclave(key, sizeof *key))
		return SGX_ERROR_INVALID_PARAMETER;
	q = *request;
	if (q.reserved1 != 0 || (q.key_policy & ~0x3f) != 0)
		return SGX_ERROR_INVALID_PARAMETER;
	for (size_t i = 0; i < sizeof q.reserved2; i++)
		if (q.reserved2[i] != 0)
			return SGX_ERROR_INVALID_PARAMETER; /* the processor would raise #GP */
	uint64_t rax = 1;
	__asm__ volatile(".byte 0x0f, 0x01, 0xd7" : "+a"(rax) : "b"(&q), "c"(k) : "memory", "cc");
	switch (rax) {
	case 0:
		memcpy(key, k, 16);
		memset(k, 0, sizeof k);
		__asm__ volatile("" ::"r"(k) : "memory");
		return SGX_SUCCESS;
	case 2:
		return SGX_ERROR_INVALID_ATTRIBUTE;
	case 32:
		return SGX_ERROR_INVALID_CPUSVN;
	case 64:
		return SGX_ERROR_INVALID_ISVSVN;
	case 256:
		return SGX_ERROR_INVALID_KEYNAME;
	}
	return SGX_ERROR_UNEXPECTED;
}
