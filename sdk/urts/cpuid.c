/* SPDX-License-Identifier: Apache-2.0 */
/* CPUID is illegal inside SGX; the SDK asks its application. */
#include <cpuid.h>

#include "internal.h"

API void sgx_oc_cpuidex(int info[4], int leaf, int subleaf);
API void sgx_oc_cpuidex(int info[4], int leaf, int subleaf)
{
	unsigned a = 0, b = 0, c = 0, d = 0;
	if (info == NULL)
		return;
	__cpuid_count((unsigned)leaf, (unsigned)subleaf, a, b, c, d);
	info[0] = (int)a;
	info[1] = (int)b;
	info[2] = (int)c;
	info[3] = (int)d;
}
