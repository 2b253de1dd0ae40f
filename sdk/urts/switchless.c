/* SPDX-License-Identifier: Apache-2.0 */
/* The SDK's switchless library (libsgx_uswitchless.a) is linked into the
 * application and registers itself here. Its rings lie in the application's memory,
 * which the enclave reaches like any other. */
#include "internal.h"

struct functions {
	sgx_status_t (*init)(sgx_enclave_id_t, const void *, void **);
	sgx_status_t (*ecall)(void *, unsigned, void *, int *);
	sgx_status_t (*destroy)(void *);
	void (*ocall_fallback)(void *);
	sgx_status_t (*first)(void *, sgx_enclave_id_t, const void *);
};

static struct functions f;

API void sgx_set_switchless_itf(const struct functions *given);
API void sgx_set_switchless_itf(const struct functions *given)
{
	f = *given;
}

sgx_status_t switchless_start(struct enclave *e, const void *config)
{
	if (f.init == NULL) {
		log_error("switchless calls were asked for, but the application is not linked with the SDK's switchless library");
		return SGX_ERROR_UNEXPECTED;
	}
	return f.init(e->id, config, &e->switchless);
}

void switchless_stop(struct enclave *e)
{
	if (e->switchless != NULL)
		f.destroy(e->switchless);
}

void switchless_first(struct enclave *e, const void *table)
{
	if (e->switchless != NULL && table != NULL && !__atomic_exchange_n(&e->started, true, __ATOMIC_ACQ_REL))
		f.first(e->switchless, e->id, table);
}

void switchless_fallback(struct enclave *e)
{
	if (e->switchless != NULL)
		f.ocall_fallback(e->switchless);
}

bool switchless_call(struct enclave *e, int index, void *ms, sgx_status_t *status)
{
	int fallback = 0;
	if (e->switchless == NULL)
		return false;
	*status = f.ecall(e->switchless, (unsigned)index, ms, &fallback);
	return fallback == 0;
}
