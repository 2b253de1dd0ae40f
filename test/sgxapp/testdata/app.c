/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
/* An application of the test enclave (enclave/urts/probe). Its first argument names
 * the case; it exits with 0 if all is as it should be. It is linked with a stub and
 * gets the library by LD_LIBRARY_PATH, as built applications do. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../../sdk/urts/sgx.h"

sgx_status_t sgx_create_enclave(const char *, int, sgx_launch_token_t *, int *, sgx_enclave_id_t *, sgx_misc_attribute_t *);
sgx_status_t sgx_create_enclave_ex(const char *, int, sgx_launch_token_t *, int *, sgx_enclave_id_t *, sgx_misc_attribute_t *, uint32_t, const void *[32]);
sgx_status_t sgx_create_enclave_from_buffer_ex(uint8_t *, uint64_t, int, sgx_enclave_id_t *, sgx_misc_attribute_t *, uint32_t, const void *[32]);
sgx_status_t sgx_destroy_enclave(sgx_enclave_id_t);
sgx_status_t sgx_ecall(sgx_enclave_id_t, int, const void *, void *);
sgx_status_t sgx_ecall_switchless(sgx_enclave_id_t, int, const void *, void *);
sgx_status_t sgx_get_target_info(sgx_enclave_id_t, sgx_target_info_t *);
sgx_status_t sgx_get_metadata(const char *, void *);
void sgx_oc_cpuidex(int[4], int, int);
int sgx_thread_wait_untrusted_event_ocall(const void *);
int sgx_thread_set_untrusted_event_ocall(const void *);

enum { PUT, GET, OCALL, UD, REPORT, SEAL, LOOP, SYSCALL, PEEK, TRANSFORM = 18, STACK = 19 };

static const char *image;
static sgx_enclave_id_t eid;

#define CHECK(what) do { if (!(what)) { fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what); exit(1); } } while (0)
#define OK(call) do { sgx_status_t s_ = (call); if (s_ != SGX_SUCCESS) { fprintf(stderr, "%s:%d: %s: status %#x\n", __FILE__, __LINE__, #call, s_); exit(1); } } while (0)

struct transform { const void *in; void *out; uint64_t size; };
struct stack { uint64_t index, value, result; };
struct ocall_ms { uint64_t in, out; };

static uint64_t global_in[600] = {1, 2, 3}, global_out[600];
static const char literal[] = "a string literal in read-only memory";
static __thread uint64_t per_thread;

static sgx_status_t ocall_nothing(void *ms) { (void)ms; return SGX_SUCCESS; }
static sgx_status_t ocall_add(void *p)
{
	struct ocall_ms *ms = p;
	ms->out = ms->in + 1000;
	per_thread++;
	return SGX_SUCCESS;
}
static sgx_status_t ocall_nested(void *p)
{
	struct ocall_ms *ms = p;
	uint64_t v = 4711, w = 0;
	OK(sgx_ecall(eid, PUT, NULL, &v));
	OK(sgx_ecall(eid, GET, NULL, &w));
	ms->out = w;
	return SGX_SUCCESS;
}
static sgx_status_t ocall_fails(void *p) { (void)p; return 0x77; }
static const struct { uint32_t count; sgx_ocall_t ocall[6]; } table = {6, {ocall_add, ocall_nested, ocall_fails, ocall_nothing, ocall_nothing, ocall_nothing}};

static void create(void)
{
	sgx_launch_token_t token = {0};
	sgx_misc_attribute_t a;
	int updated = -1;
	OK(sgx_create_enclave(image, 1, &token, &updated, &eid, &a));
	CHECK(updated == 0 && (a.secs_attr.flags & 7) == 7 && (a.secs_attr.xfrm & 3) == 3);
}

/* transformed lets the enclave copy and change a buffer and looks at the result. */
static void transformed(const void *in, void *out, size_t size)
{
	struct transform ms = {in, out, size};
	OK(sgx_ecall(eid, TRANSFORM, &table, &ms));
	for (size_t i = 0; i < size; i++)
		CHECK((((const uint8_t *)in)[i] ^ 0x5a) == ((uint8_t *)out)[i]);
}

static void memory(void)
{
	uint8_t in[10000], out[10000];
	for (size_t i = 0; i < sizeof in; i++)
		in[i] = (uint8_t)(i * 7);
	transformed(in, out, sizeof in);                             /* stack */
	transformed(global_in, global_out, sizeof global_in);        /* data and bss */
	transformed(literal, out, sizeof literal);                   /* rodata */
	for (size_t n = 1; n <= 3 << 20; n = n * 3 + 5) {            /* heap, growing */
		uint8_t *a = malloc(n), *b = calloc(1, n);
		memset(a, (int)n, n);
		transformed(a, b, n);
		free(a);
		free(b);
	}
	/* Other memory takes the place of what the enclave knew. */
	for (int i = 0; i < 5; i++) {
		uint8_t *m = mmap((void *)0x123400000000, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		CHECK(m != MAP_FAILED);
		m[5000] = (uint8_t)(i + 1);
		transformed(m + 5000, m, 1000);
		CHECK(m[0] == ((i + 1) ^ 0x5a));
		if (i % 2 == 0)
			CHECK(munmap(m, 3 * 4096) == 0);
	}
	/* Grown in place or elsewhere. */
	uint8_t *m = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	m[1] = 9;
	transformed(m, out, 4096);
	m = mremap(m, 4096, 64 * 4096, MREMAP_MAYMOVE);
	CHECK(m != MAP_FAILED && m[1] == 9 && m[4096] == 0 && m[63 * 4096] == 0);
	m[40 * 4096] = 77;
	transformed(m, malloc(64 * 4096), 64 * 4096);
	/* Read only that becomes writable. */
	uint8_t *r = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	r[0] = 1;
	CHECK(mprotect(r, 4096, PROT_READ) == 0);
	transformed(r, out, 100);
	CHECK(mprotect(r, 4096, PROT_READ | PROT_WRITE) == 0);
	r[0] = 2;
	transformed(r, out, 100);
	CHECK(out[0] == (2 ^ 0x5a));
}

static void deep(int n)
{
	volatile uint8_t room[4096];
	room[0] = (uint8_t)n;
	if (n > 0)
		deep(n - 1);
	CHECK(room[0] == (uint8_t)n);
}

static void calls(void)
{
	uint64_t v = 0xfeed, w = 0;
	OK(sgx_ecall(eid, PUT, &table, &v));
	OK(sgx_ecall(eid, GET, &table, &w));
	CHECK(w == 0xfeed);
	OK(sgx_ecall_switchless(eid, PUT, &table, &v));
	struct stack s = {0, 5, 0};
	OK(sgx_ecall(eid, STACK, &table, &s));
	CHECK(s.result == 5 + 1000 + 1 && per_thread == 1);
	s = (struct stack){1, 5, 0};
	OK(sgx_ecall(eid, STACK, &table, &s));
	CHECK(s.result == 4711 + 1);
	s = (struct stack){2, 5, 0};
	CHECK(sgx_ecall(eid, STACK, &table, &s) == 0x77);
	s = (struct stack){6, 5, 0};
	CHECK(sgx_ecall(eid, STACK, &table, &s) == SGX_ERROR_INVALID_FUNCTION);
	OK(sgx_ecall(eid, OCALL, &table, &v));
	CHECK(sgx_ecall(eid, -3, &table, &v) == SGX_ERROR_INVALID_FUNCTION);
	CHECK(sgx_ecall(eid + 99, PUT, &table, &v) == SGX_ERROR_INVALID_ENCLAVE_ID);
	CHECK(sgx_ecall(eid, 999, &table, &v) == 1); /* what this enclave says */
	for (int i = 0; i < 20; i++)
		OK(sgx_ecall(eid, UD, &table, NULL)); /* two-phase exception */
	OK(sgx_ecall(eid, SYSCALL, &table, NULL));
	deep(1200); /* the stack still has all its room */
	sgx_target_info_t t;
	OK(sgx_get_target_info(eid, &t));
	uint8_t zero[32] = {0};
	CHECK(memcmp(t.bytes, zero, 32) != 0);
	int info[4] = {0};
	sgx_oc_cpuidex(info, 0, 0);
	CHECK(info[0] != 0 && memcmp(&info[1], "Genu", 4) == 0 && memcmp(&info[3], "ineI", 4) == 0 && memcmp(&info[2], "ntel", 4) == 0);
	uint8_t metadata[0x750];
	OK(sgx_get_metadata(image, metadata));
	CHECK(metadata[12] == 2);
	CHECK(sgx_get_metadata("/proc/self/exe", metadata) == SGX_ERROR_INVALID_ENCLAVE);
}

static int turn[2];
static void *waits(void *p)
{
	(void)p;
	CHECK(sgx_thread_wait_untrusted_event_ocall(&turn[0]) == SGX_SUCCESS);
	CHECK(sgx_thread_set_untrusted_event_ocall(&turn[1]) == SGX_SUCCESS);
	return NULL;
}

#define THREADS 4
static void *works(void *p)
{
	uint8_t in[5000], out[5000];
	memset(in, (int)(intptr_t)p, sizeof in);
	for (int i = 0; i < 15; i++) {
		transformed(in, out, sizeof in);
		uint8_t *a = malloc(20000 + (size_t)i * 777), *b = malloc(20000 + (size_t)i * 777);
		memset(a, i, 20000);
		transformed(a, b, 20000);
		free(a);
		free(b);
		struct stack s = {0, (uint64_t)i, 0};
		OK(sgx_ecall(eid, STACK, &table, &s));
		CHECK(s.result == (uint64_t)i + 1001);
	}
	CHECK(per_thread == 15);
	return NULL;
}

/* idle does what must not notice that threads are stopped. */
static int stop_idling;
static void *idles(void *p)
{
	uint64_t *count = p;
	while (!__atomic_load_n(&stop_idling, __ATOMIC_ACQUIRE)) {
		struct timespec t = {0, 300000};
		CHECK(nanosleep(&t, NULL) == 0);
		(*count)++;
	}
	return NULL;
}

static void threads(void)
{
	pthread_t t[THREADS], other, idle;
	uint64_t count = 0;
	CHECK(pthread_create(&idle, NULL, idles, &count) == 0);
	for (intptr_t i = 0; i < THREADS; i++)
		CHECK(pthread_create(&t[i], NULL, works, (void *)i) == 0);
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_join(t[i], NULL) == 0);
	__atomic_store_n(&stop_idling, 1, __ATOMIC_RELEASE);
	CHECK(pthread_join(idle, NULL) == 0 && count > 0);
	CHECK(pthread_create(&other, NULL, waits, NULL) == 0);
	CHECK(sgx_thread_set_untrusted_event_ocall(&turn[0]) == SGX_SUCCESS);
	CHECK(sgx_thread_wait_untrusted_event_ocall(&turn[1]) == SGX_SUCCESS);
	CHECK(pthread_join(other, NULL) == 0);
}

struct loop { volatile uint64_t stop, counted; };
static sgx_status_t looped;
static void *loops(void *p)
{
	do
		looped = sgx_ecall(eid, LOOP, &table, p);
	while (looped == SGX_ERROR_OUT_OF_TCS); /* the other thread was faster */
	return NULL;
}

/* taken calls until the other thread has the enclave's only thread. */
static sgx_status_t taken(void)
{
	uint64_t v;
	sgx_status_t s;
	while ((s = sgx_ecall(eid, GET, &table, &v)) == SGX_SUCCESS)
		usleep(1000);
	return s;
}

/* tcs: more threads than the enclave has (1 of them loops). */
static void tcs(void)
{
	struct loop l = {0, 0};
	pthread_t t;
	uint64_t v = 0;
	CHECK(pthread_create(&t, NULL, loops, &l) == 0);
	CHECK(taken() == SGX_ERROR_OUT_OF_TCS);
	l.stop = 1;
	CHECK(pthread_join(t, NULL) == 0 && looped == SGX_SUCCESS && l.counted > 0);
	OK(sgx_ecall(eid, GET, &table, &v));
}

static void cycles(void)
{
	for (int i = 0; i < 8; i++) {
		uint64_t v = (uint64_t)i, w = 1;
		OK(sgx_ecall(eid, PUT, &table, &v));
		OK(sgx_destroy_enclave(eid));
		CHECK(sgx_ecall(eid, PUT, &table, &v) == SGX_ERROR_INVALID_ENCLAVE_ID);
		CHECK(sgx_destroy_enclave(eid) == SGX_ERROR_INVALID_ENCLAVE_ID);
		create();
		OK(sgx_ecall(eid, GET, &table, &w));
		CHECK(w == 0);
	}
	/* Two at a time, one of them from a buffer. */
	sgx_enclave_id_t one = eid, two;
	FILE *f = fopen(image, "r");
	static uint8_t b[1 << 20];
	size_t n = f == NULL ? 0 : fread(b, 1, sizeof b, f);
	CHECK(n > 0 && fclose(f) == 0);
	OK(sgx_create_enclave_from_buffer_ex(b, n, 0, &two, NULL, 0, NULL));
	uint64_t v = 1, w = 2;
	OK(sgx_ecall(one, PUT, &table, &v));
	OK(sgx_ecall(two, PUT, &table, &w));
	OK(sgx_ecall(one, GET, &table, &w));
	CHECK(w == 1);
	OK(sgx_ecall(two, GET, &table, &w));
	CHECK(w == 2);
	OK(sgx_destroy_enclave(two));
	/* Destroyed while it runs. */
	struct loop l = {0, 0};
	pthread_t t;
	CHECK(pthread_create(&t, NULL, loops, &l) == 0);
	CHECK(taken() == SGX_ERROR_OUT_OF_TCS);
	OK(sgx_destroy_enclave(eid));
	CHECK(pthread_join(t, NULL) == 0 && looped == SGX_ERROR_ENCLAVE_LOST);
	create();
}

static void faults(void)
{
	uint64_t at = 0x6000000000, v = 0;
	struct transform ms = {&v, NULL, 8};
	CHECK(sgx_ecall(eid, PEEK, &table, &at) == SGX_ERROR_ENCLAVE_CRASHED); /* no memory there */
	OK(sgx_destroy_enclave(eid));
	create();
	CHECK(sgx_ecall(eid, TRANSFORM, &table, &ms) == SGX_ERROR_ENCLAVE_CRASHED);
	OK(sgx_destroy_enclave(eid));
	create();
	ms.out = (void *)(uintptr_t)literal; /* not writable */
	CHECK(sgx_ecall(eid, TRANSFORM, &table, &ms) == SGX_ERROR_ENCLAVE_CRASHED);
	CHECK(literal[0] == 'a');
	OK(sgx_destroy_enclave(eid));
	create();
	void *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ms.out = shared; /* shared with others: refused */
	CHECK(sgx_ecall(eid, TRANSFORM, &table, &ms) == SGX_ERROR_ENCLAVE_CRASHED);
}

static void forks(void)
{
	uint64_t v = 5, w = 0;
	static uint64_t shared_or_not = 1;
	uint64_t *heap = malloc(64);
	*heap = 1;
	transformed(&shared_or_not, global_out, 8);
	transformed(heap, global_out, 8);
	OK(sgx_ecall(eid, PUT, &table, &v));
	pid_t p = fork();
	CHECK(p >= 0);
	if (p == 0) {
		v = 6; /* its own stack, data and heap */
		shared_or_not = 2;
		*heap = 2;
		for (int i = 0; i < 100; i++)
			free(malloc(1000 + (size_t)i));
		deep(100);
		CHECK(sgx_ecall(eid, PUT, &table, &v) == SGX_ERROR_ENCLAVE_LOST);
		OK(sgx_destroy_enclave(eid));
		create(); /* an enclave of the child */
		OK(sgx_ecall(eid, PUT, &table, &v));
		transformed(heap, global_out, 8);
		exit(0);
	}
	int status = -1;
	CHECK(waitpid(p, &status, 0) == p && status == 0);
	CHECK(v == 5 && shared_or_not == 1 && *heap == 1);
	OK(sgx_ecall(eid, GET, &table, &w));
	CHECK(w == 5);
	transformed(heap, global_out, 8);
	CHECK(system("exit 7") == 7 << 8);
}

/* lost: the monitor is killed while an ECALL runs; file descriptor 3 says when. */
static void lost(void)
{
	struct loop l = {0, 0};
	pthread_t t;
	char c = 'r';
	uint64_t v = 0;
	CHECK(pthread_create(&t, NULL, loops, &l) == 0);
	CHECK(taken() == SGX_ERROR_OUT_OF_TCS && write(3, &c, 1) == 1);
	CHECK(pthread_join(t, NULL) == 0);
	CHECK(looped == SGX_ERROR_ENCLAVE_LOST);
	CHECK(sgx_ecall(eid, GET, &table, &v) == SGX_ERROR_ENCLAVE_LOST);
	OK(sgx_destroy_enclave(eid));
	CHECK(sgx_create_enclave(image, 0, NULL, NULL, &eid, NULL) == SGX_ERROR_NO_DEVICE);
}

/* signals: handlers of the application run while its thread is in an ECALL, on its
 * own stack, and the ECALL goes on. */
static volatile uint64_t alarms;
static struct loop *alarmed;

static void on_alarm(int signal)
{
	(void)signal;
	if (++alarms == 20)
		alarmed->stop = 1;
}

static void signals(void)
{
	struct loop l = {0, 0};
	struct sigaction a = {.sa_handler = on_alarm}; /* no SA_RESTART */
	struct itimerval often = {{0, 2000}, {0, 2000}}, never = {{0, 0}, {0, 0}};
	uint64_t v = 9, w = 0;
	alarmed = &l;
	CHECK(sigaction(SIGALRM, &a, NULL) == 0 && setitimer(ITIMER_REAL, &often, NULL) == 0);
	OK(sgx_ecall(eid, LOOP, &table, &l));
	CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
	CHECK(alarms >= 20 && l.counted > 0);
	OK(sgx_ecall(eid, PUT, &table, &v));
	OK(sgx_ecall(eid, GET, &table, &w));
	CHECK(w == 9);
}

/* strict: only the marshalling buffer. */
static void strict_mode(void)
{
	extern void *holdfast_enclave_buffer(size_t) __attribute__((weak));
	CHECK(holdfast_enclave_buffer != NULL);
	uint64_t v = 1, *b = holdfast_enclave_buffer(4096);
	CHECK(b != NULL);
	b[0] = 42;
	OK(sgx_ecall(eid, PUT, &table, b));
	OK(sgx_ecall(eid, GET, &table, b + 1));
	CHECK(b[1] == 42);
	CHECK(sgx_ecall(eid, PUT, &table, &v) == SGX_ERROR_ENCLAVE_CRASHED);
}

int main(int argc, char **argv)
{
	CHECK(argc >= 3);
	const char *what = argv[1];
	image = argv[2];
	if (strcmp(what, "create") == 0) { /* expects the status in argv[3]; argv[4] is the debug argument */
		sgx_status_t s = sgx_create_enclave(image, argc > 4 ? atoi(argv[4]) : 1, NULL, NULL, &eid, NULL);
		if (s == (sgx_status_t)strtoul(argv[3], NULL, 0))
			return 0;
		fprintf(stderr, "sgx_create_enclave: status %#x, expected %s\n", s, argv[3]);
		return 1;
	}
	if (strcmp(what, "arguments") == 0) {
		const void *p[32] = {NULL}, *q[32] = {NULL, NULL, "config"};
		CHECK(sgx_create_enclave(image, 0, NULL, NULL, NULL, NULL) == SGX_ERROR_INVALID_PARAMETER);
		CHECK(sgx_create_enclave_ex(image, 0, NULL, NULL, &eid, NULL, 8, p) == SGX_ERROR_INVALID_PARAMETER);
		CHECK(sgx_create_enclave_ex(image, 0, NULL, NULL, &eid, NULL, 0, q) == SGX_ERROR_INVALID_PARAMETER);
		CHECK(sgx_create_enclave_ex(image, 0, NULL, NULL, &eid, NULL, 4, q) == SGX_ERROR_FEATURE_NOT_SUPPORTED);
		CHECK(sgx_create_enclave_from_buffer_ex(NULL, 5, 0, &eid, NULL, 0, NULL) == SGX_ERROR_INVALID_PARAMETER);
		CHECK(sgx_get_target_info(77, NULL) == SGX_ERROR_INVALID_PARAMETER);
		CHECK(sgx_destroy_enclave(77) == SGX_ERROR_INVALID_ENCLAVE_ID);
		return 0;
	}
	create();
	const struct { const char *name; void (*f)(void); } cases[] = {
		{"calls", calls}, {"memory", memory}, {"threads", threads}, {"tcs", tcs}, {"cycles", cycles}, {"faults", faults}, {"forks", forks}, {"lost", lost}, {"strict", strict_mode}, {"signals", signals},
	};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
		if (strcmp(cases[i].name, what) == 0) {
			cases[i].f();
			return 0;
		}
	fprintf(stderr, "no case %s\n", what);
	return 2;
}
