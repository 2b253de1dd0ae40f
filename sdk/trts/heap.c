/* SPDX-License-Identifier: Apache-2.0 */
/* malloc: blocks with their size in front, free ones in a list by address, first
 * fit, neighbours joined. Sizes and addresses are multiples of 16. A free list
 * that does not fit together ends the enclave. */
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "sgx_spinlock.h"
#include "thread.h"

struct block {
	size_t size;        /* with this head */
	uint64_t mark;      /* USED, or not */
	struct block *next; /* while it is free */
	uint64_t room;
};
#define HEAD 16
#define USED 0x75736564626c6f63ull
#define FREE 0x66726565626c6f63ull

static struct block *first;
static uint8_t *low, *high;
static sgx_spinlock_t lock;

void trts_heap_init(void *at, size_t size)
{
	low = at;
	high = low + size;
	if (size < sizeof(struct block))
		return;
	first = at;
	*first = (struct block){size, FREE, NULL, 0};
}

void *malloc(size_t n)
{
	if (n > PTRDIFF_MAX)
		return NULL;
	size_t want = (n + HEAD + 15) & ~(size_t)15;
	if (want < sizeof(struct block))
		want = sizeof(struct block);
	sgx_spin_lock(&lock);
	for (struct block **p = &first; *p != NULL; p = &(*p)->next) {
		struct block *b = *p;
		if (b->mark != FREE)
			trts_crash();
		if (b->size < want)
			continue;
		if (b->size - want >= sizeof(struct block)) {
			struct block *rest = (struct block *)((uint8_t *)b + want);
			*rest = (struct block){b->size - want, FREE, b->next, 0};
			b->size = want;
			*p = rest;
		} else {
			*p = b->next;
		}
		b->mark = USED;
		sgx_spin_unlock(&lock);
		return (uint8_t *)b + HEAD;
	}
	sgx_spin_unlock(&lock);
	errno = ENOMEM;
	return NULL;
}

static struct block *block_of(void *p)
{
	struct block *b = (struct block *)((uint8_t *)p - HEAD);
	if ((uint8_t *)b < low || (uint8_t *)p >= high || ((uintptr_t)p & 15) != 0 || b->mark != USED)
		trts_crash();
	return b;
}

void free(void *q)
{
	if (q == NULL)
		return;
	sgx_spin_lock(&lock);
	struct block *b = block_of(q), **p = &first, *before = NULL;
	while (*p != NULL && *p < b) {
		before = *p;
		p = &before->next;
	}
	b->mark = FREE;
	b->next = *p;
	*p = b;
	if (b->next != NULL && (uint8_t *)b + b->size == (uint8_t *)b->next) {
		b->size += b->next->size;
		b->next = b->next->next;
	}
	if (before != NULL && (uint8_t *)before + before->size == (uint8_t *)b) {
		before->size += b->size;
		before->next = b->next;
	}
	sgx_spin_unlock(&lock);
}

void *calloc(size_t a, size_t b)
{
	size_t n;
	if (__builtin_mul_overflow(a, b, &n)) {
		errno = ENOMEM;
		return NULL;
	}
	void *p = malloc(n);
	return p == NULL ? NULL : memset(p, 0, n);
}

void *realloc(void *p, size_t n)
{
	if (p == NULL)
		return malloc(n);
	size_t had = block_of(p)->size - HEAD;
	if (n <= had && n >= had / 2)
		return p;
	void *q = malloc(n);
	if (q == NULL)
		return NULL;
	memcpy(q, p, n < had ? n : had);
	free(p);
	return q;
}
