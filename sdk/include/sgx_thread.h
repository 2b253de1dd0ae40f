/* SPDX-License-Identifier: Apache-2.0 */
/* Mutexes, condition variables and read-write locks of an enclave's threads. Who
 * must wait waits outside, if the EDL file imports the OCALLs of sgx_tstdc.edl, and
 * else spins. Functions return 0 or an errno value. */
#ifndef HOLDFAST_SGX_THREAD_H
#define HOLDFAST_SGX_THREAD_H

#include <stddef.h>
#include <stdint.h>

#include "sgx_defs.h"

typedef uintptr_t sgx_thread_t;
#define SGX_THREAD_T_NULL ((sgx_thread_t)(NULL))

typedef struct _sgx_thread_queue_t {
	sgx_thread_t m_first;
	sgx_thread_t m_last;
} sgx_thread_queue_t;

typedef struct _sgx_thread_mutex_t {
	size_t m_refcount;
	uint32_t m_control;
	volatile uint32_t m_lock;
	sgx_thread_t m_owner;
	sgx_thread_queue_t m_queue;
} sgx_thread_mutex_t;

typedef struct _sgx_thread_rwlock_t {
	uint32_t m_reader_count;
	uint32_t m_writers_waiting;
	volatile uint32_t m_lock;
	sgx_thread_t m_owner;
	sgx_thread_queue_t m_reader_queue;
	sgx_thread_queue_t m_writer_queue;
} sgx_thread_rwlock_t;

typedef struct _sgx_thread_cond_t {
	volatile uint32_t m_lock;
	sgx_thread_queue_t m_queue;
} sgx_thread_cond_t;

typedef struct _sgx_thread_mutex_attr_t {
	unsigned char m_dummy;
} sgx_thread_mutexattr_t;
typedef struct _sgx_thread_rwlock_attr_t {
	unsigned char m_dummy;
} sgx_thread_rwlockattr_t;
typedef struct _sgx_thread_cond_attr_t {
	unsigned char m_dummy;
} sgx_thread_condattr_t;

#define SGX_THREAD_MUTEX_NONRECURSIVE 0x01
#define SGX_THREAD_MUTEX_RECURSIVE 0x02
#define SGX_THREAD_NONRECURSIVE_MUTEX_INITIALIZER {0, SGX_THREAD_MUTEX_NONRECURSIVE, 0, SGX_THREAD_T_NULL, {SGX_THREAD_T_NULL, SGX_THREAD_T_NULL}}
#define SGX_THREAD_RECURSIVE_MUTEX_INITIALIZER {0, SGX_THREAD_MUTEX_RECURSIVE, 0, SGX_THREAD_T_NULL, {SGX_THREAD_T_NULL, SGX_THREAD_T_NULL}}
#define SGX_THREAD_MUTEX_INITIALIZER SGX_THREAD_NONRECURSIVE_MUTEX_INITIALIZER
#define SGX_THREAD_LOCK_INITIALIZER {0, 0, 0, SGX_THREAD_T_NULL, {SGX_THREAD_T_NULL, SGX_THREAD_T_NULL}, {SGX_THREAD_T_NULL, SGX_THREAD_T_NULL}}
#define SGX_THREAD_COND_INITIALIZER {0, {SGX_THREAD_T_NULL, SGX_THREAD_T_NULL}}

#ifdef __cplusplus
extern "C" {
#endif

int SGXAPI sgx_thread_mutex_init(sgx_thread_mutex_t *mutex, const sgx_thread_mutexattr_t *unused);
int SGXAPI sgx_thread_mutex_destroy(sgx_thread_mutex_t *mutex);
int SGXAPI sgx_thread_mutex_lock(sgx_thread_mutex_t *mutex);
int SGXAPI sgx_thread_mutex_trylock(sgx_thread_mutex_t *mutex);
int SGXAPI sgx_thread_mutex_unlock(sgx_thread_mutex_t *mutex);

int SGXAPI sgx_thread_rwlock_init(sgx_thread_rwlock_t *rwlock, const sgx_thread_rwlockattr_t *unused);
int SGXAPI sgx_thread_rwlock_destroy(sgx_thread_rwlock_t *rwlock);
int SGXAPI sgx_thread_rwlock_rdlock(sgx_thread_rwlock_t *rwlock);
int SGXAPI sgx_thread_rwlock_tryrdlock(sgx_thread_rwlock_t *rwlock);
int SGXAPI sgx_thread_rwlock_wrlock(sgx_thread_rwlock_t *rwlock);
int SGXAPI sgx_thread_rwlock_trywrlock(sgx_thread_rwlock_t *rwlock);
int SGXAPI sgx_thread_rwlock_rdunlock(sgx_thread_rwlock_t *rwlock);
int SGXAPI sgx_thread_rwlock_wrunlock(sgx_thread_rwlock_t *rwlock);
int SGXAPI sgx_thread_rwlock_unlock(sgx_thread_rwlock_t *rwlock);

int SGXAPI sgx_thread_cond_init(sgx_thread_cond_t *cond, const sgx_thread_condattr_t *unused);
int SGXAPI sgx_thread_cond_destroy(sgx_thread_cond_t *cond);
int SGXAPI sgx_thread_cond_wait(sgx_thread_cond_t *cond, sgx_thread_mutex_t *mutex);
int SGXAPI sgx_thread_cond_signal(sgx_thread_cond_t *cond);
int SGXAPI sgx_thread_cond_broadcast(sgx_thread_cond_t *cond);

sgx_thread_t SGXAPI sgx_thread_self(void);
int sgx_thread_equal(sgx_thread_t a, sgx_thread_t b);

#ifdef __cplusplus
}
#endif

#endif
