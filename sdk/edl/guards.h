/* SPDX-License-Identifier: Apache-2.0 */
/* Nothing is read before what stands above is decided, and nothing is read twice. */
static inline void edl_fence(void) { __asm__ volatile("lfence" ::: "memory"); }

/* The product; not 0 if it overflows. */
static inline int edl_multiply(size_t a, size_t b, size_t* product) { return __builtin_mul_overflow(a, b, product); }

/* Adds room for n bytes, rounded up to 16; not 0 if it overflows. */
static inline int edl_add(size_t* total, size_t n)
{
	size_t r;
	return __builtin_add_overflow(n, (size_t)15, &r) || __builtin_add_overflow(*total, r & ~(size_t)15, total);
}

/* Takes n bytes of that room. */
static inline void* edl_take(void** next, size_t n)
{
	void* at = *next;
	*next = (char*)at + ((n + 15) & ~(size_t)15);
	return at;
}

/* What a pointer in a copied struct points to, on both sides. */
typedef struct edl_deep {
	void* outside;
	void* inside;
	size_t size;
} edl_deep;

/* Copies it into the enclave. */
static inline sgx_status_t edl_deep_in(edl_deep* d)
{
	if (d->outside == NULL)
		return SGX_SUCCESS;
	if (!sgx_is_outside_enclave(d->outside, d->size))
		return SGX_ERROR_INVALID_PARAMETER;
	edl_fence();
	if (d->size == 0)
		return SGX_SUCCESS;
	d->inside = malloc(d->size);
	if (d->inside == NULL)
		return SGX_ERROR_OUT_OF_MEMORY;
	memcpy(d->inside, d->outside, d->size);
	return SGX_SUCCESS;
}

static inline void edl_deep_free(edl_deep* d, size_t n)
{
	size_t i;
	for (i = 0; i < n; i++)
		free(d[i].inside);
	free(d);
}
