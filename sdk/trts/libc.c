/* SPDX-License-Identifier: Apache-2.0 */
/* What musl's libc.a does by system calls, without: its locks spin, and there are
 * no files. Defined here, its own parts are not linked. What else of it needs the
 * kernel is found by the signer, which names the function. */
#include <stddef.h>

#include "sgx_spinlock.h"
#include "thread.h"

void __lock(volatile int *l);
void __unlock(volatile int *l);
int __lockfile(void *f);
void __unlockfile(void *f);

void __lock(volatile int *l) { sgx_spin_lock((sgx_spinlock_t *)l); }
void __unlock(volatile int *l) { sgx_spin_unlock((sgx_spinlock_t *)l); }

/* Only the streams of snprintf and its like, which one thread has. */
int __lockfile(void *f)
{
	(void)f;
	return 0;
}
void __unlockfile(void *f) { (void)f; }
