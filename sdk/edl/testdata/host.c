/* SPDX-License-Identifier: Apache-2.0 */
/* A world for generated stubs: the "enclave" is a shared object with an arena of
 * memory in which its heap and stacks lie. An ECALL goes over to a stack in the
 * arena, an OCALL back. `inside` and `outside` are exact, so that the checks of the
 * stubs are those they would be in an enclave. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include "sgx_edger8r.h"
#include "sgx_trts.h"

#define ARENA (64 << 20)
#define STACK (256 << 10)
static uint8_t arena[ARENA] __attribute__((aligned(4096)));
static size_t used, live, outside_used;
static uint8_t *outside; /* room for sgx_ocalloc */

/* The image of the enclave: its constants may be arguments of OCALLs. */
extern const char __ehdr_start, _end __attribute__((visibility("hidden")));

int sgx_is_within_enclave(const void *p, size_t n)
{
	uintptr_t a = (uintptr_t)p, b;
	if (__builtin_add_overflow(a, n, &b))
		return 0;
	return a >= (uintptr_t)&__ehdr_start && b <= (uintptr_t)&_end;
}

int sgx_is_outside_enclave(const void *p, size_t n)
{
	uintptr_t a = (uintptr_t)p, b;
	if (__builtin_add_overflow(a, n, &b))
		return 0;
	return b <= (uintptr_t)&__ehdr_start || a >= (uintptr_t)&_end;
}

void *enclave_malloc(size_t n)
{
	if (n > ARENA / 4 || used + n + 32 > ARENA - 8 * STACK)
		return NULL;
	uint8_t *p = arena + used + 16;
	used += (n + 16 + 15) & ~(size_t)15;
	live++;
	return p;
}
void *enclave_calloc(size_t a, size_t b)
{
	size_t n;
	if (__builtin_mul_overflow(a, b, &n))
		return NULL;
	void *p = enclave_malloc(n);
	return p == NULL ? NULL : memset(p, 0, n);
}
void enclave_free(void *p)
{
	if (p != NULL && --live == 0)
		used = 0;
}
size_t enclave_live(void) { return live; }

struct table { size_t n; struct { void *at; uint8_t private, threads; } e[]; };
extern const struct table g_ecall_table;
struct ocalls { size_t n; sgx_status_t (*at[])(void *); };

static struct world {
	ucontext_t app, enclave;
	const struct ocalls *table;
	int index, pending, ocall;
	void *ms, *oms;
	sgx_status_t result, oresult;
	struct world *before;
} *now;
static int depth;

static void run(void)
{
	now->result = ((sgx_status_t (*)(void *))g_ecall_table.e[now->index].at)(now->ms);
}

/* enclave_enter is sgx_ecall: it serves OCALLs until the ECALL returns. */
sgx_status_t enclave_enter(int index, const void *table, void *ms)
{
	if (index < 0 || (size_t)index >= g_ecall_table.n)
		return SGX_ERROR_INVALID_FUNCTION;
	if (outside == NULL)
		outside = malloc(1 << 20);
	struct world w = {.table = table, .index = index, .ms = ms, .before = now};
	getcontext(&w.enclave);
	w.enclave.uc_stack.ss_sp = arena + ARENA - (size_t)++depth * STACK;
	w.enclave.uc_stack.ss_size = STACK;
	w.enclave.uc_link = &w.app;
	makecontext(&w.enclave, run, 0);
	for (now = &w;;) {
		w.pending = 0;
		swapcontext(&w.app, &w.enclave);
		if (!w.pending)
			break;
		w.oresult = (size_t)w.ocall < w.table->n ? w.table->at[w.ocall](w.oms) : SGX_ERROR_INVALID_FUNCTION;
		now = &w;
	}
	now = w.before;
	depth--;
	return w.result;
}

sgx_status_t sgx_ocall(const unsigned int index, void *ms)
{
	struct world *w = now;
	w->ocall = (int)index;
	w->oms = ms;
	w->pending = 1;
	swapcontext(&w->enclave, &w->app);
	return w->oresult;
}
sgx_status_t sgx_ocall_switchless(const unsigned int index, void *ms) { return sgx_ocall(index, ms); }

void *sgx_ocalloc(size_t n)
{
	if (n > (1 << 20) - outside_used)
		return NULL;
	void *p = outside + outside_used;
	memset(p, 0xa5, n);
	outside_used += n;
	return p;
}
void sgx_ocfree(void) { outside_used = 0; }
void *enclave_address(void) { return arena; }
