/* SPDX-License-Identifier: Apache-2.0 */
/* Exceptions, in two phases: after AEX the untrusted runtime enters once more, and
 * trts_exception lets the interrupted code go on in dispatch, on its own stack;
 * dispatch asks the handlers. */
#include <string.h>

#include "sgx_spinlock.h"
#include "sgx_trts.h"
#include "sgx_trts_exception.h"
#include "thread.h"

struct node {
	struct node *next;
	sgx_exception_handler_t handler;
};
static struct node *first;
static sgx_spinlock_t lock;

void *malloc(size_t);
void free(void *);
void trts_continue(const sgx_cpu_context_t *);

void *sgx_register_exception_handler(int is_first, sgx_exception_handler_t handler)
{
	if (handler == NULL || !sgx_is_within_enclave((const void *)handler, 1))
		return NULL;
	struct node *n = malloc(sizeof *n);
	if (n == NULL)
		return NULL;
	n->handler = handler;
	sgx_spin_lock(&lock);
	struct node **p = &first;
	while (!is_first && *p != NULL)
		p = &(*p)->next;
	n->next = *p;
	*p = n;
	sgx_spin_unlock(&lock);
	return n;
}

int sgx_unregister_exception_handler(void *handle)
{
	sgx_spin_lock(&lock);
	struct node **p = &first;
	while (*p != NULL && *p != handle)
		p = &(*p)->next;
	struct node *n = *p;
	if (n != NULL)
		*p = n->next;
	sgx_spin_unlock(&lock);
	free(n);
	return n != NULL;
}

#define MOST 64
static void dispatch(sgx_exception_info_t *info)
{
	struct thread *t = self();
	sgx_exception_handler_t all[MOST];
	int n = 0;
	sgx_spin_lock(&lock);
	for (struct node *p = first; p != NULL && n < MOST; p = p->next)
		all[n++] = p->handler;
	sgx_spin_unlock(&lock);
	for (int i = 0; i < n; i++)
		if (all[i](info) == EXCEPTION_CONTINUE_EXECUTION) {
			t->exceptions--;
			trts_continue(&info->cpu_context);
		}
	trts_crash();
}

__attribute__((visibility("hidden"))) uint32_t trts_exception(void);
uint32_t trts_exception(void)
{
	struct thread *t = self();
	struct gpr *g = (struct gpr *)t->first_ssa_gpr;
	if (sgx_is_enclave_crashed() || first == NULL || (g->exit_info >> 31) == 0 || t->exceptions > 8)
		return SGX_ERROR_ENCLAVE_CRASHED;
	/* Below the red zone, and above where this function itself runs. */
	uint64_t at = (g->rsp - 128 - sizeof(sgx_exception_info_t)) & ~(uint64_t)63;
	if (g->rsp > t->stack_base || at < t->stack_limit + 8192)
		return SGX_ERROR_STACK_OVERRUN;
	sgx_exception_info_t *info = (sgx_exception_info_t *)at;
	memset(info, 0, sizeof *info);
	memcpy(&info->cpu_context, g, sizeof info->cpu_context);
	info->exception_vector = (sgx_exception_vector_t)(g->exit_info & 0xff);
	info->exception_type = (sgx_exception_type_t)(g->exit_info >> 8 & 7);
	t->exceptions++;
	g->rdi = at;
	g->rsp = at - 8;
	g->rip = (uint64_t)dispatch;
	g->rflags &= ~(uint64_t)0x40500; /* alignment checks, direction, single steps: off */
	return 0;
}
