/* SPDX-License-Identifier: Apache-2.0 */
/* The application. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hello_u.h"
#include "sgx_urts.h"

#define CHECK(c) do { if (!(c)) { fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #c); exit(1); } } while (0)
#define OK(c) do { sgx_status_t s_ = (c); if (s_ != SGX_SUCCESS) { fprintf(stderr, "%s:%d: %s: status %#x\n", __FILE__, __LINE__, #c, s_); exit(1); } } while (0)

static sgx_enclave_id_t eid;
static char printed[300];

void ocall_print(const char *s) { snprintf(printed, sizeof printed, "%s", s); }
int ocall_back(int depth)
{
	int r = 0;
	CHECK(ecall_add(eid, &r, 1, 1) == SGX_ERROR_ECALL_NOT_ALLOWED); /* not in the OCALL's allow list */
	OK(ecall_private(eid, &r, depth - 1));
	return r;
}

static void *works(void *p)
{
	uint64_t *last = p;
	for (int i = 0; i < 20; i++)
		OK(ecall_counter(eid, last));
	return NULL;
}

int main(int argc, char **argv)
{
	OK(sgx_create_enclave(argc > 1 ? argv[1] : "hello.signed.so", SGX_DEBUG_FLAG, NULL, NULL, &eid, NULL));
	int r = 0;
	OK(ecall_add(eid, &r, 40, 2));
	CHECK(r == 42);
	char text[100];
	OK(ecall_greet(eid, &r, "world", text, sizeof text));
	CHECK(strcmp(text, "Good day, world! (5 letters)") == 0 && strcmp(text, printed) == 0);
	printf("%s\n", text);
	int v[6] = {5, 3, 9, -1, 0, 7};
	OK(ecall_sort(eid, v, 6));
	for (int i = 0; i < 5; i++)
		CHECK(v[i] <= v[i + 1]);
	int32_t amounts[3] = {10, 20, 30}, more[2] = {-5, 7};
	struct account a[2] = {{1, 3, amounts}, {2, 2, more}};
	int64_t total = 0;
	OK(ecall_total(eid, &total, a, 2));
	CHECK(total == 62 && amounts[2] == 0 && more[1] == 0 && a[0].amounts == amounts);
	OK(ecall_heap(eid, &r, 3000));
	CHECK(r == 0);
	OK(ecall_call_back(eid, &r, 5));
	CHECK(r == 6);
	CHECK(ecall_private(eid, &r, 1) == SGX_ERROR_ECALL_NOT_ALLOWED);
	for (int i = 0; i < 3; i++) {
		OK(ecall_exception(eid, &r));
		CHECK(r == 77);
	}
	pthread_t t[3];
	uint64_t last[3];
	for (int i = 0; i < 3; i++)
		CHECK(pthread_create(&t[i], NULL, works, &last[i]) == 0);
	for (int i = 0; i < 3; i++)
		CHECK(pthread_join(t[i], NULL) == 0 && last[i] > 100 && last[i] <= 160);
	CHECK(ecall_crash(eid, &r, (const int *)0x10) == SGX_ERROR_ENCLAVE_CRASHED);
	OK(sgx_destroy_enclave(eid));
	printf("all right\n");
	return 0;
}
