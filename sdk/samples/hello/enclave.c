/* SPDX-License-Identifier: Apache-2.0 */
/* A small enclave: strings, arrays, structs, the heap, OCALLs and ECALLs in them,
 * exceptions, thread-local variables. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hello_t.h"
#include "sgx_trts.h"
#include "sgx_trts_exception.h"

static __thread uint64_t counter = 100;
static const char *const greetings[] = {"Hello", "Good day"}; /* relocated at the start */

int ecall_add(int a, int b) { return a + b; }

int ecall_greet(const char *name, char *to, size_t len)
{
	char text[200];
	int n = snprintf(text, sizeof text, "%s, %s! (%d letters)", greetings[strlen(name) % 2], name, (int)strlen(name));
	if (to == NULL || n < 0 || (size_t)n >= len)
		return -1;
	memcpy(to, text, (size_t)n + 1);
	ocall_print(text);
	return n;
}

static int compare(const void *a, const void *b) { return (*(const int *)a > *(const int *)b) - (*(const int *)a < *(const int *)b); }
void ecall_sort(int *v, size_t n) { qsort(v, n, sizeof *v, compare); }

int64_t ecall_total(struct account *a, size_t n)
{
	int64_t sum = 0;
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < a[i].n; j++) {
			sum += a[i].amounts[j];
			a[i].amounts[j] = 0;
		}
	return sum;
}

int ecall_heap(int rounds)
{
	enum { N = 50 };
	unsigned char *p[N] = {NULL};
	size_t size[N] = {0};
	unsigned seed = 1;
	for (int r = 0; r < rounds; r++) {
		seed = seed * 1103515245 + 12345;
		unsigned i = (seed >> 16) % N;
		for (size_t k = 0; k < size[i]; k++)
			if (p[i][k] != (unsigned char)i)
				return 1;
		size[i] = (seed >> 8) % 5000;
		p[i] = realloc(p[i], size[i] + 1);
		if (p[i] == NULL || ((uintptr_t)p[i] & 15) != 0 || !sgx_is_within_enclave(p[i], size[i]))
			return 2;
		memset(p[i], (int)i, size[i]);
	}
	for (int i = 0; i < N; i++)
		free(p[i]);
	void *all = malloc(0xc0000); /* the parts have become one again */
	int whole = all != NULL;
	free(all);
	return whole && malloc((size_t)1 << 40) == NULL ? 0 : 3;
}

int ecall_call_back(int depth)
{
	int r = 0;
	if (depth == 0)
		return 1;
	if (ocall_back(&r, depth) != SGX_SUCCESS)
		return -1000;
	return r + 1;
}
int ecall_private(int depth) { return ecall_call_back(depth); }

static int handler(sgx_exception_info_t *info)
{
	if (info->exception_vector != SGX_EXCEPTION_VECTOR_UD || info->cpu_context.rbx != 0x1234)
		return EXCEPTION_CONTINUE_SEARCH;
	info->cpu_context.rip += 2;
	info->cpu_context.rax = 77;
	return EXCEPTION_CONTINUE_EXECUTION;
}

int ecall_exception(void)
{
	long result = 0;
	void *h = sgx_register_exception_handler(1, handler);
	if (h == NULL)
		return -1;
	__asm__ volatile("ud2" : "=a"(result) : "a"(1L), "b"(0x1234L) : "memory");
	return sgx_unregister_exception_handler(h) == 1 ? (int)result : -2;
}

uint64_t ecall_counter(void) { return ++counter; }
int ecall_crash(const int *p) { return *p; }
