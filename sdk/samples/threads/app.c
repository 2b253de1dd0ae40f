/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sgx_urts.h"
#include "threads_u.h"

#define CHECK(c) do { if (!(c)) { fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #c); exit(1); } } while (0)
#define OK(c) do { sgx_status_t s_ = (c); if (s_ != SGX_SUCCESS) { fprintf(stderr, "%s:%d: %s: status %#x\n", __FILE__, __LINE__, #c, s_); exit(1); } } while (0)

/* In libsgx_urts. */
int sgx_thread_wait_untrusted_event_ocall(const void *self);
int sgx_thread_set_untrusted_event_ocall(const void *waiter);

static sgx_enclave_id_t eid;
enum { THREADS = 4, ROUNDS = 200, ITEMS = 60 };

static void *counts(void *p)
{
	(void)p;
	OK(ecall_count(eid, ROUNDS));
	return NULL;
}
static void *produces(void *p)
{
	OK(ecall_produce(eid, p, ITEMS));
	return NULL;
}
static void *consumes(void *p)
{
	OK(ecall_consume(eid, p, ITEMS));
	return NULL;
}

int main(int argc, char **argv)
{
	const char *file = argc > 1 ? argv[1] : "threads.signed.so";
	OK(sgx_create_enclave(file, SGX_DEBUG_FLAG, NULL, NULL, &eid, NULL));
	pthread_t t[THREADS];
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_create(&t[i], NULL, counts, NULL) == 0);
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_join(t[i], NULL) == 0);
	uint64_t n = 0, sums[THREADS] = {0};
	OK(ecall_counted(eid, &n));
	CHECK(n == THREADS * ROUNDS);
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_create(&t[i], NULL, i % 2 ? produces : consumes, &sums[i]) == 0);
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_join(t[i], NULL) == 0);
	CHECK(sums[0] + sums[2] == sums[1] + sums[3] && sums[1] == ITEMS * (ITEMS + 1) / 2);
	int line = 0;
	OK(ecall_locks(eid, &line));
	if (line != 0)
		fprintf(stderr, "ecall_locks: line %d of enclave.c\n", line);
	CHECK(line == 0);
	uint8_t key[16], again[16];
	OK(ecall_keys(eid, &line, key));
	if (line != 0)
		fprintf(stderr, "ecall_keys: line %d of enclave.c\n", line);
	CHECK(line == 0);
	OK(sgx_destroy_enclave(eid));
	/* The same enclave has the same key. */
	OK(sgx_create_enclave(file, SGX_DEBUG_FLAG, NULL, NULL, &eid, NULL));
	OK(ecall_keys(eid, &line, again));
	CHECK(memcmp(key, again, 16) == 0);
	OK(sgx_destroy_enclave(eid));
	printf("all right\n");
	return 0;
}
