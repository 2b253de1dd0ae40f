/* SPDX-License-Identifier: Apache-2.0 */
/* Drives the generated stubs: first as an application would, then as an attacker. */
#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "all_u.h"

#define CHECK(c) do { if (!(c)) { fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #c); exit(1); } } while (0)
#define OK(c) CHECK((c) == SGX_SUCCESS)

static sgx_status_t (*enter)(int, const void *, void *);
static size_t (*live)(void);
static void *inside;
static const void *table;

sgx_status_t sgx_ecall(const sgx_enclave_id_t eid, const int index, const void *t, void *ms)
{
	CHECK(eid == 5);
	table = t;
	sgx_status_t s = enter(index, t, ms);
	return s;
}
static int switchless;
sgx_status_t sgx_ecall_switchless(const sgx_enclave_id_t eid, const int index, const void *t, void *ms)
{
	switchless++;
	return sgx_ecall(eid, index, t, ms);
}

static int nothing;
void ocall_nothing(void) { nothing++; }
int ocall_print(const char *s) { errno = 95; return (int)strlen(s); }
int ocall_nested(int x)
{
	int r = 0;
	OK(ecall_private(5, &r, x));
	return r;
}
void ocall_swap(uint32_t *v, size_t n, struct point *p)
{
	for (size_t i = 0; v != NULL && i < n / 2; i++) {
		uint32_t t = v[i];
		v[i] = v[n - 1 - i];
		v[n - 1 - i] = t;
	}
	if (p != NULL)
		p->x += 1; /* from zero */
}
int ocall_text(char *s, const wchar_t *w)
{
	int n = 0;
	for (; s[n] != 0; n++)
		s[n] = (char)toupper(s[n]);
	return n + (int)wcslen(w);
}
void ocall_arrays(int a[4], int b[2][2], array_t c)
{
	for (int i = 0; i < 4; i++)
		b[i / 2][i % 2] = a[i];
	for (int i = 0; i < 6; i++)
		c[i] *= 10;
}
static const void *const listed[] = {&nothing, &table};
size_t ocall_list(const void **list, size_t n)
{
	return n == 2 && list[0] == listed[0] && list[1] == listed[1] ? 2 : 0;
}
int ocall_raw(void *p) { return p == NULL; }
int imported_ocall(int retval, int eid) { return retval + eid; }
int ocall_deep(struct deep *d, size_t n, int attack)
{
	int sum = 0;
	for (size_t i = 0; i < n; i++) {
		for (size_t j = 0; j < d[i].n; j++)
			sum += d[i].items[j]++;
		for (size_t j = 0; j < d[i].len; j++)
			((uint8_t *)d[i].bytes)[j] ^= 0xff;
		d[i].tag++;
	}
	if (attack == 1)
		d[0].n = 1000;
	if (attack == 2) {
		d[0].n = 2;
		d[0].items = (uint16_t *)inside;
	}
	return sum;
}

static void plain(void)
{
	int r = 0;
	OK(ecall_nothing(5));
	OK(ecall_values(5, &r, 'c', 200, -2, 60000, -5, 6, -7, ~0ULL, -8, 1ULL << 63, 1.5f, 2.5, 9, L'w'));
	CHECK(r == 1);
	OK(ecall_values(5, NULL, 'x', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
	long double ld = 0;
	struct point p = {1, 2};
	union number u = {.whole = 3};
	OK(ecall_composites(5, &ld, p, u, BLUE));
	CHECK(ld == 1 + 2 + 3 + 5 + 7);
	uint8_t data[5] = {1, 2, 3, 4, 5};
	uint64_t sum = 0;
	OK(ecall_sum(5, &sum, data, 5));
	CHECK(sum == 15);
	OK(ecall_sum(5, &sum, NULL, 5));
	CHECK(sum == 1000000);
	OK(ecall_sum(5, &sum, data, 0));
	CHECK(sum == 1000000);
	uint32_t to[3] = {9, 9, 9};
	OK(ecall_fill(5, to, 2, 4));
	CHECK(to[0] == 4 && to[1] == 4 && to[2] == 9);
	char s[] = "abcd";
	OK(ecall_reverse(5, &r, s));
	CHECK(r == 4 && strcmp(s, "dcba") == 0);
	size_t w = 0;
	OK(ecall_wide(5, &w, L"12345", 100));
	CHECK(w == 105);
	OK(ecall_wide(5, &w, NULL, 1));
	CHECK(w == 77);
	int a[4] = {1, 2, 3, 4}, b[4], c[2][3] = {{1, 2, 3}, {4, 5, 6}}, d[4] = {0};
	OK(ecall_arrays(5, a, b, c, d));
	CHECK(b[3] == 40 && c[1][2] == 7 && d[3] == 1);
	array_t f = {1, 2, 3, 4, 5, 6};
	OK(ecall_foreign(5, &r, "xyz", 3, f, data));
	CHECK(r == 'z' + 1 && f[5] == -6);
	OK(ecall_both(5, data, 2, 2));
	CHECK(data[3] == 0x11 && data[4] == 5);
	OK(ecall_raw(5, &r, data, (const char **)data));
	CHECK(r == 1);
	OK(imported_ecall(5, &r, a, 10));
	CHECK(r == 11);
	OK(ecall_threads(5, &r, 1));
	CHECK(r == 2 && switchless == 1);
	uint16_t items[3] = {1, 2, 3};
	uint8_t bytes[2] = {5, 6};
	struct deep e[2] = {{3, items, 2, bytes, 100}, {7, NULL, 0, bytes, 200}};
	OK(ecall_deep(5, &r, e, 2));
	CHECK(r == 6 && items[2] == 4 && bytes[0] == (5 ^ 0xff) && e[0].items == items && e[0].bytes == bytes && e[1].items == NULL && e[1].bytes == bytes && e[1].tag == 201);
	OK(ecall_deep(5, &r, NULL, 2));
	const void *list[] = {listed[0], listed[1]};
	OK(ecall_list(5, &w, list, 2));
	CHECK(w == 2);
	OK(ecall_ocalls(5, &r, 4711));
	if (r != 4711) {
		fprintf(stderr, "ecall_ocalls: line %d of enclave.c\n", r);
		exit(1);
	}
	CHECK(nothing == 1);
	CHECK(live() == 0);
}

/* What an attacker can put into the structures. Numbers of ECALLs as in all.edl. */
enum { NOTHING, VALUES, COMPOSITES, SUM, FILL, REVERSE, WIDE, ARRAYS, FOREIGN, BOTH, RAW, DEEP };
#define REFUSED(index, ms) do { CHECK(enter(index, table, ms) == SGX_ERROR_INVALID_PARAMETER); CHECK(live() == 0); } while (0)

static void hostile(void)
{
	uint8_t data[64] = {0};
	int one = 1;
	CHECK(enter(999, table, NULL) == SGX_ERROR_INVALID_FUNCTION);
	REFUSED(NOTHING, data);
	REFUSED(SUM, NULL);
	REFUSED(SUM, inside);
	REFUSED(SUM, (char *)inside - 8); /* half of it */
	struct { uint64_t r; const void *p; size_t len; } sum = {0, inside, 5};
	REFUSED(SUM, &sum);
	sum.p = (char *)inside - 2;
	REFUSED(SUM, &sum);
	sum.p = data;
	sum.len = ~(size_t)0;
	REFUSED(SUM, &sum);
	sum.p = (void *)~(uintptr_t)0;
	sum.len = 2;
	REFUSED(SUM, &sum);
	sum.p = data;
	sum.len = 1 << 25; /* outside, and more than the heap: nothing is read */
	CHECK(enter(SUM, table, &sum) != SGX_SUCCESS);
	struct { void *p; size_t n; uint32_t v; } fill = {inside, 1, 1};
	REFUSED(FILL, &fill);
	fill.p = data;
	fill.n = ((size_t)1 << 62) + 1; /* times 4 is 4 */
	REFUSED(FILL, &fill);
	struct { int r; char *s; size_t len; } text = {0, (char *)data, 0};
	REFUSED(REVERSE, &text);
	memset(data, 'a', sizeof data);
	text.len = 64; /* no end: it is put there; here it is not where the length says */
	data[10] = 0;
	CHECK(enter(REVERSE, table, &text) == SGX_ERROR_UNEXPECTED);
	data[10] = 'a';
	OK(enter(REVERSE, table, &text));
	CHECK(text.r == 63 && data[63] == 0);
	text.s = inside;
	text.len = 4;
	REFUSED(REVERSE, &text);
	struct { size_t r; wchar_t *s; size_t len, s_len; } wide = {0, (wchar_t *)data, 7, 0};
	REFUSED(WIDE, &wide);
	struct { void *a, *b, *c, *d; } arrays = {data, data, inside, data};
	REFUSED(ARRAYS, &arrays);
	struct { int r; const void *b; size_t len; void *a, *u; } foreign = {0, data, 1, inside, NULL};
	REFUSED(FOREIGN, &foreign);
	struct { void *p; unsigned size; int count; } both = {data, 1, -1};
	REFUSED(BOTH, &both);
	both.size = ~0U;
	both.count = -3;
	REFUSED(BOTH, &both);
	uint16_t items[3] = {1, 2, 3};
	struct deep d[2] = {{3, items, 0, NULL, 1}, {3, items, 4, inside, 1}};
	struct { int r; struct deep *d; size_t n; } deep = {0, d, 2};
	REFUSED(DEEP, &deep);
	d[1].bytes = data;
	d[1].n = ((size_t)1 << 63) + 3; /* times 2 is 6 */
	REFUSED(DEEP, &deep);
	d[1].n = 3;
	d[1].items = (uint16_t *)((char *)inside - 2);
	REFUSED(DEEP, &deep);
	CHECK(items[0] == 1); /* nothing came back */
	deep.n = (size_t)1 << 61;
	REFUSED(DEEP, &deep);
	(void)one;
}

int main(int argc, char **argv)
{
	CHECK(argc == 2);
	void *l = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
	if (l == NULL)
		fprintf(stderr, "%s\n", dlerror());
	CHECK(l != NULL);
	*(void **)&enter = dlsym(l, "enclave_enter");
	*(void **)&live = dlsym(l, "enclave_live");
	inside = ((void *(*)(void))dlsym(l, "enclave_address"))();
	plain();
	hostile();
	puts("all right");
	return 0;
}
