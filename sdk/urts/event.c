/* SPDX-License-Identifier: Apache-2.0 */
/* OCALLs by which threads of an enclave wait for each other. An event belongs to
 * the thread whose TCS address names it; setting it before the wait is kept. */
#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"

struct event {
	const void *name;
	atomic_int set;
	struct event *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct event *events;

static struct event *event(const void *name)
{
	pthread_mutex_lock(&lock);
	struct event *e = events;
	while (e != NULL && e->name != name)
		e = e->next;
	if (e == NULL && (e = calloc(1, sizeof *e)) != NULL) {
		e->name = name;
		e->next = events;
		events = e;
	}
	pthread_mutex_unlock(&lock);
	return e;
}

static long futex(atomic_int *at, int op, int value, const struct timespec *t)
{
	return syscall(SYS_futex, at, op, value, t, NULL, 0);
}

static int await(struct event *e, const struct timespec *timeout)
{
	int one = 1;
	while (!atomic_compare_exchange_strong(&e->set, &one, 0)) {
		one = 1;
		if (futex(&e->set, FUTEX_WAIT_PRIVATE, 0, timeout) < 0 && errno == ETIMEDOUT)
			return ETIMEDOUT;
	}
	return 0;
}

static void wake(struct event *e)
{
	atomic_store(&e->set, 1);
	futex(&e->set, FUTEX_WAKE_PRIVATE, 1, NULL);
}

API int sgx_thread_wait_untrusted_event_ocall(const void *self);
API int sgx_thread_wait_untrusted_event_ocall(const void *self)
{
	struct event *e = self == NULL ? NULL : event(self);
	if (e == NULL)
		return SGX_ERROR_INVALID_PARAMETER;
	return await(e, NULL) == 0 ? SGX_SUCCESS : SGX_ERROR_UNEXPECTED;
}

API int sgx_thread_set_untrusted_event_ocall(const void *waiter);
API int sgx_thread_set_untrusted_event_ocall(const void *waiter)
{
	struct event *e = waiter == NULL ? NULL : event(waiter);
	if (e == NULL)
		return SGX_ERROR_INVALID_PARAMETER;
	wake(e);
	return SGX_SUCCESS;
}

API int sgx_thread_set_multiple_untrusted_events_ocall(const void **waiters, size_t total);
API int sgx_thread_set_multiple_untrusted_events_ocall(const void **waiters, size_t total)
{
	if (waiters == NULL || *waiters == NULL)
		return SGX_ERROR_INVALID_PARAMETER;
	for (size_t i = 0; i < total; i++) {
		int r = sgx_thread_set_untrusted_event_ocall(waiters[i]);
		if (r != SGX_SUCCESS)
			return r;
	}
	return SGX_SUCCESS;
}

API int sgx_thread_setwait_untrusted_events_ocall(const void *waiter, const void *self);
API int sgx_thread_setwait_untrusted_events_ocall(const void *waiter, const void *self)
{
	int r = sgx_thread_set_untrusted_event_ocall(waiter);
	return r == SGX_SUCCESS ? sgx_thread_wait_untrusted_event_ocall(self) : r;
}

API sgx_status_t pthread_wait_timeout_ocall(unsigned long long waiter, unsigned long long timeout);
API sgx_status_t pthread_wait_timeout_ocall(unsigned long long waiter, unsigned long long timeout)
{
	struct event *e = event((const void *)waiter);
	if (e == NULL)
		return SGX_ERROR_DEVICE_BUSY;
	struct timespec t = {.tv_sec = (time_t)timeout}; /* seconds; 0 waits for ever */
	await(e, timeout == 0 ? NULL : &t);
	return SGX_SUCCESS; /* the enclave looks for itself whether it was woken */
}

API sgx_status_t pthread_wakeup_ocall(unsigned long long waiter);
API sgx_status_t pthread_wakeup_ocall(unsigned long long waiter)
{
	struct event *e = event((const void *)waiter);
	if (e != NULL)
		wake(e);
	return SGX_SUCCESS;
}
