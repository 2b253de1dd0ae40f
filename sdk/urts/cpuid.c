/* SPDX-License-Identifier: Apache-2.0 */
/* CPUID is illegal inside SGX; the SDK asks its application. Every processor with
 * SGX says that it is Intel's, and enclaves rely on it (Intel's SGXSSL aborts
 * otherwise), so that is said of others too, unless HOLDFAST_ENCLAVE_CPUID=host. */
#include <cpuid.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

API void sgx_oc_cpuidex(int info[4], int leaf, int subleaf);
API void sgx_oc_cpuidex(int info[4], int leaf, int subleaf)
{
	unsigned a = 0, b = 0, c = 0, d = 0;
	if (info == NULL)
		return;
	__cpuid_count((unsigned)leaf, (unsigned)subleaf, a, b, c, d);
	const char *how = getenv("HOLDFAST_ENCLAVE_CPUID");
	if (leaf == 0 && (how == NULL || strcmp(how, "host") != 0)) {
		b = signature_INTEL_ebx;
		d = signature_INTEL_edx;
		c = signature_INTEL_ecx;
	}
	info[0] = (int)a;
	info[1] = (int)b;
	info[2] = (int)c;
	info[3] = (int)d;
}
