/* SPDX-License-Identifier: Apache-2.0 */
/* Mutexes, condition variables, read-write locks. Who waits stands in a queue in
 * the enclave and sleeps outside; waking is the application's word, so who wakes
 * looks again. The lock of an object is held for a few instructions only. */
#include <errno.h>
#include <string.h>

#include "sgx_error.h"
#include "sgx_spinlock.h"
#include "sgx_thread.h"
#include "thread.h"

/* Made by edger8r where the EDL file imports them. */
sgx_status_t sgx_thread_wait_untrusted_event_ocall(int *result, const void *self) __attribute__((weak));
sgx_status_t sgx_thread_set_untrusted_event_ocall(int *result, const void *waiter) __attribute__((weak));

static void sleep_outside(void)
{
	int r;
	if (sgx_thread_wait_untrusted_event_ocall == NULL || sgx_thread_set_untrusted_event_ocall == NULL ||
	    sgx_thread_wait_untrusted_event_ocall(&r, self()) != SGX_SUCCESS)
		__builtin_ia32_pause();
}

static void wake(sgx_thread_t t)
{
	int r;
	if (t != SGX_THREAD_T_NULL && sgx_thread_wait_untrusted_event_ocall != NULL && sgx_thread_set_untrusted_event_ocall != NULL)
		sgx_thread_set_untrusted_event_ocall(&r, (const void *)t);
}

static sgx_thread_t *next_of(sgx_thread_t t) { return (sgx_thread_t *)&((struct thread *)t)->next; }

static void enqueue(sgx_thread_queue_t *q, sgx_thread_t t)
{
	*next_of(t) = SGX_THREAD_T_NULL;
	if (q->m_first == SGX_THREAD_T_NULL)
		q->m_first = t;
	else
		*next_of(q->m_last) = t;
	q->m_last = t;
}

/* dequeue takes t out; 0 if it is not there. */
static int dequeue(sgx_thread_queue_t *q, sgx_thread_t t)
{
	sgx_thread_t before = SGX_THREAD_T_NULL, at = q->m_first;
	while (at != SGX_THREAD_T_NULL && at != t) {
		before = at;
		at = *next_of(at);
	}
	if (at == SGX_THREAD_T_NULL)
		return 0;
	if (before == SGX_THREAD_T_NULL)
		q->m_first = *next_of(t);
	else
		*next_of(before) = *next_of(t);
	if (q->m_last == t)
		q->m_last = before;
	return 1;
}

static int queued(const sgx_thread_queue_t *q, sgx_thread_t t)
{
	sgx_thread_t at = q->m_first;
	while (at != SGX_THREAD_T_NULL && at != t)
		at = *next_of(at);
	return at == t;
}

sgx_thread_t sgx_thread_self(void) { return (sgx_thread_t)self(); }
int sgx_thread_equal(sgx_thread_t a, sgx_thread_t b) { return a == b; }

int sgx_thread_mutex_init(sgx_thread_mutex_t *m, const sgx_thread_mutexattr_t *unused)
{
	(void)unused;
	if (m == NULL)
		return EINVAL;
	*m = (sgx_thread_mutex_t)SGX_THREAD_MUTEX_INITIALIZER;
	return 0;
}

int sgx_thread_mutex_destroy(sgx_thread_mutex_t *m)
{
	if (m == NULL)
		return EINVAL;
	sgx_spin_lock(&m->m_lock);
	int busy = m->m_owner != SGX_THREAD_T_NULL || m->m_queue.m_first != SGX_THREAD_T_NULL;
	sgx_spin_unlock(&m->m_lock);
	return busy ? EBUSY : 0;
}

/* take, under the lock: 0 if it is ours now. */
static int take(sgx_thread_mutex_t *m, sgx_thread_t me)
{
	if (m->m_owner == me) {
		if (m->m_control != SGX_THREAD_MUTEX_RECURSIVE)
			return EDEADLK;
	} else if (m->m_owner != SGX_THREAD_T_NULL) {
		return EBUSY;
	}
	m->m_owner = me;
	m->m_refcount++;
	return 0;
}

int sgx_thread_mutex_trylock(sgx_thread_mutex_t *m)
{
	if (m == NULL)
		return EINVAL;
	sgx_spin_lock(&m->m_lock);
	int e = take(m, sgx_thread_self());
	sgx_spin_unlock(&m->m_lock);
	return e == 0 ? 0 : EBUSY;
}

int sgx_thread_mutex_lock(sgx_thread_mutex_t *m)
{
	if (m == NULL)
		return EINVAL;
	sgx_thread_t me = sgx_thread_self();
	for (;;) {
		sgx_spin_lock(&m->m_lock);
		int e = take(m, me);
		if (e != EBUSY) {
			dequeue(&m->m_queue, me);
			sgx_spin_unlock(&m->m_lock);
			return e;
		}
		if (!queued(&m->m_queue, me))
			enqueue(&m->m_queue, me);
		sgx_spin_unlock(&m->m_lock);
		sleep_outside();
	}
}

/* release gives all of it up, and returns who is to be woken. */
static int release(sgx_thread_mutex_t *m, sgx_thread_t me, sgx_thread_t *next)
{
	*next = SGX_THREAD_T_NULL;
	sgx_spin_lock(&m->m_lock);
	if (m->m_owner != me) {
		sgx_spin_unlock(&m->m_lock);
		return EPERM;
	}
	if (--m->m_refcount == 0) {
		m->m_owner = SGX_THREAD_T_NULL;
		*next = m->m_queue.m_first;
	}
	sgx_spin_unlock(&m->m_lock);
	return 0;
}

int sgx_thread_mutex_unlock(sgx_thread_mutex_t *m)
{
	sgx_thread_t next;
	if (m == NULL)
		return EINVAL;
	int e = release(m, sgx_thread_self(), &next);
	wake(next);
	return e;
}

int sgx_thread_cond_init(sgx_thread_cond_t *c, const sgx_thread_condattr_t *unused)
{
	(void)unused;
	if (c == NULL)
		return EINVAL;
	*c = (sgx_thread_cond_t)SGX_THREAD_COND_INITIALIZER;
	return 0;
}

int sgx_thread_cond_destroy(sgx_thread_cond_t *c)
{
	if (c == NULL)
		return EINVAL;
	sgx_spin_lock(&c->m_lock);
	int busy = c->m_queue.m_first != SGX_THREAD_T_NULL;
	sgx_spin_unlock(&c->m_lock);
	return busy ? EBUSY : 0;
}

int sgx_thread_cond_wait(sgx_thread_cond_t *c, sgx_thread_mutex_t *m)
{
	sgx_thread_t me = sgx_thread_self(), next;
	if (c == NULL || m == NULL)
		return EINVAL;
	if (m->m_owner != me || m->m_refcount != 1)
		return EPERM;
	sgx_spin_lock(&c->m_lock);
	enqueue(&c->m_queue, me);
	release(m, me, &next);
	sgx_spin_unlock(&c->m_lock);
	wake(next);
	for (int waiting = 1; waiting;) {
		sleep_outside();
		sgx_spin_lock(&c->m_lock);
		waiting = queued(&c->m_queue, me);
		sgx_spin_unlock(&c->m_lock);
	}
	return sgx_thread_mutex_lock(m);
}

static int signal_one(sgx_thread_cond_t *c)
{
	sgx_spin_lock(&c->m_lock);
	sgx_thread_t t = c->m_queue.m_first;
	if (t != SGX_THREAD_T_NULL)
		dequeue(&c->m_queue, t);
	sgx_spin_unlock(&c->m_lock);
	wake(t);
	return t != SGX_THREAD_T_NULL;
}

int sgx_thread_cond_signal(sgx_thread_cond_t *c)
{
	if (c == NULL)
		return EINVAL;
	signal_one(c);
	return 0;
}

int sgx_thread_cond_broadcast(sgx_thread_cond_t *c)
{
	if (c == NULL)
		return EINVAL;
	while (signal_one(c))
		;
	return 0;
}
