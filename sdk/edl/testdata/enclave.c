/* SPDX-License-Identifier: Apache-2.0 */
/* The enclave of the test: each function looks at what it gets. */
#include <string.h>

#include "all_t.h"
#include "sgx_trts.h"

void ecall_nothing(void) {}
int ecall_values(char c, unsigned char uc, short s, unsigned short us, long l, unsigned long ul, long long ll, unsigned long long ull, int8_t i8, uint64_t u64, float f, double d, size_t z, wchar_t w)
{
	return c == 'c' && uc == 200 && s == -2 && us == 60000 && l == -5 && ul == 6 && ll == -7 && ull == ~0ULL && i8 == -8 && u64 == 1ULL << 63 && f == 1.5f && d == 2.5 && z == 9 && w == L'w';
}
long double ecall_composites(struct point p, union number u, enum colour c) { return p.x + p.y + (int)u.whole + (int)c + ANONYMOUS; }
uint64_t ecall_sum(const uint8_t *data, size_t len)
{
	uint64_t s = 0;
	if (data == NULL)
		return 1000000;
	if (!sgx_is_within_enclave(data, len))
		return 0;
	for (size_t i = 0; i < len; i++)
		s += data[i];
	return s;
}
void ecall_fill(uint32_t *to, size_t n, uint32_t value)
{
	for (size_t i = 0; to != NULL && i < n; i++)
		to[i] = to[i] == 0 ? value : 0xbad; /* it starts with zeros */
}
int ecall_reverse(char *s)
{
	size_t n = strlen(s);
	for (size_t i = 0; i < n / 2; i++) {
		char c = s[i];
		s[i] = s[n - 1 - i];
		s[n - 1 - i] = c;
	}
	return (int)n;
}
size_t ecall_wide(const wchar_t *s, size_t s_len) { return s == NULL ? 77 : wcslen(s) + s_len; }
void ecall_arrays(int a[4], int b[4], int c[2][3], int d[4])
{
	for (int i = 0; i < 4; i++)
		b[i] = a[i] * 10;
	for (int i = 0; i < 6; i++)
		c[i / 3][i % 3]++;
	d[3] = sgx_is_outside_enclave(d, 4 * sizeof(int)) && sgx_is_within_enclave(a, 4 * sizeof(int));
}
int ecall_foreign(ro_buffer_t b, size_t len, array_t a, buffer_t u)
{
	for (int i = 0; i < 6; i++)
		a[i] = -a[i];
	return ((const char *)b)[len - 1] + (u != NULL && sgx_is_outside_enclave(u, 1));
}
void ecall_both(void *p, unsigned size, int count)
{
	if (p != NULL)
		memset(p, 0x11, (size_t)size * (size_t)count);
}
int ecall_raw(void *p, const char **names) { return sgx_is_outside_enclave(p, 1) && sgx_is_outside_enclave(names, 8); }
int ecall_deep(struct deep *d, size_t n)
{
	int sum = 0;
	for (size_t i = 0; d != NULL && i < n; i++) {
		if (d[i].items != NULL && !sgx_is_within_enclave(d[i].items, d[i].n * 2))
			return -1;
		if (d[i].bytes != NULL && !sgx_is_within_enclave(d[i].bytes, d[i].len))
			return -2;
		for (size_t j = 0; d[i].items != NULL && j < d[i].n; j++)
			sum += d[i].items[j]++;
		for (size_t j = 0; d[i].bytes != NULL && j < d[i].len; j++)
			((uint8_t *)d[i].bytes)[j] ^= 0xff;
		d[i].tag++;
		d[i].items = NULL; /* what it does with its copy is its own affair */
		d[i].n = 1 << 30;
	}
	return sum;
}
int imported_ecall(int *status, int ms) { return *status + ms; }
int ecall_threads(int x) { return x + 1; }
int ecall_private(int x) { return x * 3; }
size_t ecall_list(const void **list, size_t n)
{
	size_t r = 0;
	return ocall_list(&r, list, n) == SGX_SUCCESS ? r : 0;
}

#include <errno.h>

#define WANT(c) do { if (!(c)) return __LINE__; } while (0)
int ecall_ocalls(int what)
{
	int r = 0;
	WANT(ocall_nothing() == SGX_SUCCESS);
	errno = 0;
	WANT(ocall_print(&r, "hello") == SGX_SUCCESS && r == 5 && errno == 95);
	WANT(ocall_nested(&r, 14) == SGX_SUCCESS && r == 42);
	uint32_t v[3] = {1, 2, 3};
	struct point p = {9, 9};
	WANT(ocall_swap(v, 3, &p) == SGX_SUCCESS && v[0] == 3 && v[2] == 1 && p.x == 1 && p.y == 0);
	WANT(ocall_swap(NULL, 3, NULL) == SGX_SUCCESS);
	char s[] = "text";
	WANT(ocall_text(&r, s, L"wide") == SGX_SUCCESS && r == 8 && strcmp(s, "TEXT") == 0);
	int a[4] = {1, 2, 3, 4}, b[2][2] = {{0}};
	array_t c = {1, 2, 3, 4, 5, 6};
	WANT(ocall_arrays(a, b, c) == SGX_SUCCESS && b[1][1] == 4 && c[5] == 60);
	WANT(ocall_raw(&r, NULL) == SGX_SUCCESS && r == 1);
	WANT(imported_ocall(&r, 3, 4) == SGX_SUCCESS && r == 7);
	/* What is not in the enclave is not taken for the enclave's. */
	void *out = sgx_ocalloc(64);
	WANT(ocall_swap((uint32_t *)out, 2, NULL) == SGX_ERROR_INVALID_PARAMETER);
	sgx_ocfree();
	WANT(ocall_swap(v, (size_t)1 << 62, NULL) == SGX_ERROR_INVALID_PARAMETER);
	static uint32_t large[1 << 19];
	WANT(ocall_swap(large, 1 << 19, NULL) == SGX_ERROR_UNEXPECTED); /* no room outside */

	uint16_t items[3] = {1, 2, 3}, more[1] = {40};
	uint8_t bytes[2] = {5, 6};
	struct deep d[2] = {{3, items, 2, bytes, 100}, {1, more, 0, NULL, 200}};
	WANT(ocall_deep(&r, d, 2, 0) == SGX_SUCCESS && r == 46);
	WANT(items[2] == 4 && more[0] == 41 && bytes[1] == (6 ^ 0xff) && d[0].items == items && d[1].items == more && d[0].bytes == bytes && d[1].bytes == NULL);
	WANT(d[0].tag == 101 && d[1].tag == 201 && d[0].n == 3);
	/* The application says that there is more than there is room for, or points elsewhere. */
	WANT(ocall_deep(&r, d, 2, 1) == SGX_ERROR_UNEXPECTED && d[0].n == 3);
	WANT(ocall_deep(&r, d, 2, 2) == SGX_SUCCESS && d[0].items == items && d[0].n == 2);
	return what;
}
