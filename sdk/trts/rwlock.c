/* SPDX-License-Identifier: Apache-2.0 */
/* Read-write locks. Writers go first. */
#include <errno.h>

#include "sgx_spinlock.h"
#include "sgx_thread.h"
#include "thread.h"

int sgx_thread_rwlock_init(sgx_thread_rwlock_t *l, const sgx_thread_rwlockattr_t *unused)
{
	(void)unused;
	if (l == NULL)
		return EINVAL;
	*l = (sgx_thread_rwlock_t)SGX_THREAD_LOCK_INITIALIZER;
	return 0;
}

int sgx_thread_rwlock_destroy(sgx_thread_rwlock_t *l)
{
	if (l == NULL)
		return EINVAL;
	return l->m_owner != SGX_THREAD_T_NULL || l->m_reader_count != 0 || l->m_writers_waiting != 0 ? EBUSY : 0;
}

static int attempt(sgx_thread_rwlock_t *l, int write, int waited)
{
	sgx_thread_t me = sgx_thread_self();
	int e = EBUSY;
	sgx_spin_lock(&l->m_lock);
	if (l->m_owner == me) {
		e = EDEADLK;
	} else if (write && l->m_owner == SGX_THREAD_T_NULL && l->m_reader_count == 0) {
		l->m_owner = me;
		e = 0;
	} else if (!write && l->m_owner == SGX_THREAD_T_NULL && l->m_writers_waiting == 0) {
		l->m_reader_count++;
		e = 0;
	}
	if (write && waited == 0 && e == EBUSY)
		l->m_writers_waiting++;
	if (write && waited > 0 && e == 0)
		l->m_writers_waiting--;
	sgx_spin_unlock(&l->m_lock);
	return e;
}

/* The holders of such locks do not sleep for long: who waits spins. */
static int acquire(sgx_thread_rwlock_t *l, int write)
{
	if (l == NULL)
		return EINVAL;
	for (int waited = 0;; waited = 1) {
		int e = attempt(l, write, waited);
		if (e != EBUSY)
			return e;
		__builtin_ia32_pause();
	}
}

int sgx_thread_rwlock_rdlock(sgx_thread_rwlock_t *l) { return acquire(l, 0); }
int sgx_thread_rwlock_wrlock(sgx_thread_rwlock_t *l) { return acquire(l, 1); }
int sgx_thread_rwlock_tryrdlock(sgx_thread_rwlock_t *l) { return l == NULL ? EINVAL : attempt(l, 0, -1) == 0 ? 0 : EBUSY; }
int sgx_thread_rwlock_trywrlock(sgx_thread_rwlock_t *l) { return l == NULL ? EINVAL : attempt(l, 1, -1) == 0 ? 0 : EBUSY; }

int sgx_thread_rwlock_rdunlock(sgx_thread_rwlock_t *l)
{
	if (l == NULL)
		return EINVAL;
	sgx_spin_lock(&l->m_lock);
	int e = l->m_reader_count == 0 ? EPERM : 0;
	if (e == 0)
		l->m_reader_count--;
	sgx_spin_unlock(&l->m_lock);
	return e;
}

int sgx_thread_rwlock_wrunlock(sgx_thread_rwlock_t *l)
{
	if (l == NULL)
		return EINVAL;
	sgx_spin_lock(&l->m_lock);
	int e = l->m_owner != sgx_thread_self() ? EPERM : 0;
	if (e == 0)
		l->m_owner = SGX_THREAD_T_NULL;
	sgx_spin_unlock(&l->m_lock);
	return e;
}

int sgx_thread_rwlock_unlock(sgx_thread_rwlock_t *l)
{
	if (l == NULL)
		return EINVAL;
	return l->m_owner == sgx_thread_self() ? sgx_thread_rwlock_wrunlock(l) : sgx_thread_rwlock_rdunlock(l);
}
