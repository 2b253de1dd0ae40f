/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that an enclave starts itself (the SDK's sgx_pthread): the application
 * gives it one that enters with a command of the trusted runtime. */
#include "internal.h"

#define ECMD_ECALL_PTHREAD (-6)

static void *run(void *p)
{
	struct enclave *e = p;
	uint64_t waiter = 0;
	sgx_status_t s = call_enclave(e, ECMD_ECALL_PTHREAD, __atomic_load_n(&e->table, __ATOMIC_RELAXED), &waiter);
	if (s != SGX_SUCCESS)
		log_error("a thread that the enclave started ended with status %#x", s);
	enclave_put(e);
	if (waiter != 0) /* who joins it */
		pthread_wakeup_ocall(waiter);
	return NULL;
}

API sgx_status_t pthread_create_ocall(unsigned long long self);
API sgx_status_t pthread_create_ocall(unsigned long long self)
{
	(void)self; /* names the caller's TCS; whose OCALL this is we know */
	struct enclave *e = call_current();
	if (e == NULL || (e = enclave_get(e->id)) == NULL)
		return SGX_ERROR_INVALID_PARAMETER;
	pthread_attr_t a;
	pthread_t t;
	pthread_attr_init(&a);
	pthread_attr_setdetachstate(&a, PTHREAD_CREATE_DETACHED);
	int r = pthread_create(&t, &a, run, e);
	pthread_attr_destroy(&a);
	if (r == 0)
		return SGX_SUCCESS;
	enclave_put(e);
	return SGX_ERROR_UNEXPECTED;
}
