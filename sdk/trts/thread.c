/* SPDX-License-Identifier: Apache-2.0 */
/* Spin locks, errno. */
#include <errno.h>

#include "sgx_spinlock.h"
#include "thread.h"

uint32_t sgx_spin_lock(sgx_spinlock_t *l)
{
	while (__atomic_exchange_n(l, 1, __ATOMIC_ACQUIRE) != 0)
		while (*l != 0)
			__builtin_ia32_pause();
	return 0;
}

uint32_t sgx_spin_unlock(sgx_spinlock_t *l)
{
	__atomic_store_n(l, 0, __ATOMIC_RELEASE);
	return 0;
}

/* The C library's errno; it looks for it under both names. */
int *__errno_location(void) { return (int *)&self()->last_error; }
int *___errno_location(void) { return (int *)&self()->last_error; }
