/* SPDX-License-Identifier: Apache-2.0 */
/* Threads in an enclave: a counter under a mutex, a bounded buffer with condition
 * variables, a read-write lock; and what the processor derives: reports and keys. */
#include <errno.h>
#include <string.h>

#include "sgx_thread.h"
#include "sgx_trts.h"
#include "sgx_utils.h"
#include "threads_t.h"

static sgx_thread_mutex_t lock = SGX_THREAD_MUTEX_INITIALIZER;
static sgx_thread_rwlock_t table = SGX_THREAD_LOCK_INITIALIZER;
static uint64_t counter, pair[2];

void ecall_count(int rounds)
{
	for (int i = 0; i < rounds; i++) {
		sgx_thread_mutex_lock(&lock);
		counter++;
		sgx_thread_mutex_unlock(&lock);
		sgx_thread_rwlock_wrlock(&table);
		pair[0]++;
		pair[1] = pair[0];
		sgx_thread_rwlock_unlock(&table);
	}
}

uint64_t ecall_counted(void)
{
	uint64_t n = 0;
	sgx_thread_rwlock_rdlock(&table);
	if (pair[0] == pair[1])
		n = counter;
	sgx_thread_rwlock_unlock(&table);
	return n;
}

enum { ROOM = 4 };
static sgx_thread_cond_t full = SGX_THREAD_COND_INITIALIZER, empty = SGX_THREAD_COND_INITIALIZER;
static uint64_t buffer[ROOM], in, out;

uint64_t ecall_produce(uint64_t n)
{
	uint64_t sum = 0;
	for (uint64_t i = 1; i <= n; i++) {
		sgx_thread_mutex_lock(&lock);
		while (in - out == ROOM)
			sgx_thread_cond_wait(&full, &lock);
		buffer[in++ % ROOM] = i;
		sum += i;
		sgx_thread_cond_signal(&empty);
		sgx_thread_mutex_unlock(&lock);
	}
	return sum;
}

uint64_t ecall_consume(uint64_t n)
{
	uint64_t sum = 0;
	for (uint64_t i = 0; i < n; i++) {
		sgx_thread_mutex_lock(&lock);
		while (in == out)
			sgx_thread_cond_wait(&empty, &lock);
		sum += buffer[out++ % ROOM];
		sgx_thread_cond_broadcast(&full);
		sgx_thread_mutex_unlock(&lock);
	}
	return sum;
}

#define WANT(c) do { if (!(c)) return __LINE__; } while (0)
int ecall_locks(void)
{
	sgx_thread_mutex_t m, r = SGX_THREAD_RECURSIVE_MUTEX_INITIALIZER;
	WANT(sgx_thread_mutex_init(&m, NULL) == 0 && sgx_thread_mutex_lock(&m) == 0);
	WANT(sgx_thread_mutex_lock(&m) == EDEADLK && sgx_thread_mutex_trylock(&m) == EBUSY && sgx_thread_mutex_destroy(&m) == EBUSY);
	WANT(sgx_thread_mutex_unlock(&m) == 0 && sgx_thread_mutex_unlock(&m) == EPERM && sgx_thread_mutex_destroy(&m) == 0);
	WANT(sgx_thread_mutex_lock(&r) == 0 && sgx_thread_mutex_lock(&r) == 0 && sgx_thread_mutex_trylock(&r) == 0);
	WANT(sgx_thread_mutex_unlock(&r) == 0 && sgx_thread_mutex_unlock(&r) == 0 && sgx_thread_mutex_unlock(&r) == 0 && sgx_thread_mutex_unlock(&r) == EPERM);
	sgx_thread_rwlock_t l;
	WANT(sgx_thread_rwlock_init(&l, NULL) == 0 && sgx_thread_rwlock_rdlock(&l) == 0 && sgx_thread_rwlock_tryrdlock(&l) == 0 && sgx_thread_rwlock_trywrlock(&l) == EBUSY);
	WANT(sgx_thread_rwlock_rdunlock(&l) == 0 && sgx_thread_rwlock_unlock(&l) == 0 && sgx_thread_rwlock_rdunlock(&l) == EPERM);
	WANT(sgx_thread_rwlock_wrlock(&l) == 0 && sgx_thread_rwlock_tryrdlock(&l) == EBUSY && sgx_thread_rwlock_wrlock(&l) == EDEADLK && sgx_thread_rwlock_wrunlock(&l) == 0 && sgx_thread_rwlock_destroy(&l) == 0);
	sgx_thread_cond_t c;
	WANT(sgx_thread_cond_init(&c, NULL) == 0 && sgx_thread_cond_signal(&c) == 0 && sgx_thread_cond_wait(&c, &m) == EPERM && sgx_thread_cond_destroy(&c) == 0);
	return 0;
}

int ecall_keys(uint8_t first[16])
{
	const sgx_report_t *own = sgx_self_report();
	WANT(own != NULL && (own->body.attributes.flags & SGX_FLAGS_INITTED) != 0 && own->body.isv_prod_id == 1 && own->body.isv_svn == 2);
	sgx_report_data_t d = {{1, 2, 3}};
	sgx_target_info_t t;
	sgx_report_t r, again;
	memset(&t, 0, sizeof t);
	t.mr_enclave = own->body.mr_enclave;
	t.attributes = own->body.attributes;
	t.misc_select = own->body.misc_select;
	WANT(sgx_create_report(&t, &d, &r) == SGX_SUCCESS && memcmp(&r.body.report_data, &d, sizeof d) == 0);
	WANT(sgx_create_report(&t, &d, &again) == SGX_SUCCESS && memcmp(&r, &again, sizeof r) == 0);
	t.mr_enclave.m[0] ^= 1;
	WANT(sgx_create_report(&t, &d, &again) == SGX_SUCCESS && memcmp(r.mac, again.mac, 16) != 0);
	WANT(sgx_create_report(&t, &d, (sgx_report_t *)(uintptr_t)4096) == SGX_ERROR_INVALID_PARAMETER);
	sgx_key_request_t q;
	sgx_key_128bit_t k, l;
	memset(&q, 0, sizeof q);
	q.key_name = SGX_KEYSELECT_SEAL;
	q.key_policy = SGX_KEYPOLICY_MRENCLAVE;
	q.isv_svn = 2;
	q.cpu_svn = own->body.cpu_svn;
	q.attribute_mask.flags = SGX_FLAGS_INITTED | SGX_FLAGS_DEBUG;
	WANT(sgx_get_key(&q, &k) == SGX_SUCCESS && sgx_get_key(&q, &l) == SGX_SUCCESS && memcmp(k, l, 16) == 0);
	q.key_id.id[0] = 1;
	WANT(sgx_get_key(&q, &l) == SGX_SUCCESS && memcmp(k, l, 16) != 0);
	q.isv_svn = 3;
	WANT(sgx_get_key(&q, &l) == SGX_ERROR_INVALID_ISVSVN);
	q.isv_svn = 2;
	q.key_name = 9;
	WANT(sgx_get_key(&q, &l) == SGX_ERROR_INVALID_KEYNAME);
	q.reserved2[5] = 1;
	WANT(sgx_get_key(&q, &l) == SGX_ERROR_INVALID_PARAMETER);
	memcpy(first, k, 16); /* for the test: a real enclave never lets a key out */
	unsigned char a[33] = {0}, b[33] = {0};
	WANT(sgx_read_rand(a, 33) == SGX_SUCCESS && sgx_read_rand(b, 33) == SGX_SUCCESS && memcmp(a, b, 33) != 0);
	WANT(sgx_read_rand(NULL, 3) == SGX_ERROR_INVALID_PARAMETER && sgx_read_rand(a, 0) == SGX_ERROR_INVALID_PARAMETER);
	return 0;
}
