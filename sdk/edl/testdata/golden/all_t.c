/* Made by holdfast enclave edger8r. Change the EDL file, not this one. */
#include "all_t.h"

#include "sgx_trts.h"

#include <errno.h>
#include <string.h>
#include <stdlib.h>

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

typedef struct ms_ecall_values_t {
	int ms_retval;
	char ms_c;
	unsigned char ms_uc;
	short ms_s;
	unsigned short ms_us;
	long ms_l;
	unsigned long ms_ul;
	long long ms_ll;
	unsigned long long ms_ull;
	int8_t ms_i8;
	uint64_t ms_u64;
	float ms_f;
	double ms_d;
	size_t ms_z;
	wchar_t ms_w;
} ms_ecall_values_t;

typedef struct ms_ecall_composites_t {
	long double ms_retval;
	struct point ms_p;
	union number ms_u;
	enum colour ms_c;
} ms_ecall_composites_t;

typedef struct ms_ecall_sum_t {
	uint64_t ms_retval;
	const uint8_t* ms_data;
	size_t ms_len;
} ms_ecall_sum_t;

typedef struct ms_ecall_fill_t {
	uint32_t* ms_to;
	size_t ms_n;
	uint32_t ms_value;
} ms_ecall_fill_t;

typedef struct ms_ecall_reverse_t {
	int ms_retval;
	char* ms_s;
	size_t ms_s_len;
} ms_ecall_reverse_t;

typedef struct ms_ecall_wide_t {
	size_t ms_retval;
	const wchar_t* ms_s;
	size_t ms_s_len_;
	size_t ms_s_len;
} ms_ecall_wide_t;

typedef struct ms_ecall_arrays_t {
	int* ms_a;
	int* ms_b;
	int* ms_c;
	int* ms_d;
} ms_ecall_arrays_t;

typedef struct ms_ecall_foreign_t {
	int ms_retval;
	ro_buffer_t ms_b;
	size_t ms_len;
	array_t* ms_a;
	buffer_t ms_u;
} ms_ecall_foreign_t;

typedef struct ms_ecall_both_t {
	void* ms_p;
	unsigned int ms_size;
	int ms_count;
} ms_ecall_both_t;

typedef struct ms_ecall_raw_t {
	int ms_retval;
	void* ms_p;
	const char** ms_names;
} ms_ecall_raw_t;

typedef struct ms_ecall_deep_t {
	int ms_retval;
	struct deep* ms_d;
	size_t ms_n;
} ms_ecall_deep_t;

typedef struct ms_ecall_ocalls_t {
	int ms_retval;
	int ms_what;
} ms_ecall_ocalls_t;

typedef struct ms_ecall_threads_t {
	int ms_retval;
	int ms_x;
} ms_ecall_threads_t;

typedef struct ms_ecall_private_t {
	int ms_retval;
	int ms_x;
} ms_ecall_private_t;

typedef struct ms_ecall_list_t {
	size_t ms_retval;
	const void** ms_list;
	size_t ms_n;
} ms_ecall_list_t;

typedef struct ms_imported_ecall_t {
	int ms_retval;
	int* ms_status;
	int ms_ms;
} ms_imported_ecall_t;

typedef struct ms_ocall_print_t {
	int ms_retval;
	const char* ms_s;
	size_t ms_s_len;
	int ocall_errno;
} ms_ocall_print_t;

typedef struct ms_ocall_nested_t {
	int ms_retval;
	int ms_x;
} ms_ocall_nested_t;

typedef struct ms_ocall_swap_t {
	uint32_t* ms_v;
	size_t ms_n;
	struct point* ms_p;
} ms_ocall_swap_t;

typedef struct ms_ocall_text_t {
	int ms_retval;
	char* ms_s;
	size_t ms_s_len;
	const wchar_t* ms_w;
	size_t ms_w_len;
} ms_ocall_text_t;

typedef struct ms_ocall_arrays_t {
	int* ms_a;
	int* ms_b;
	array_t* ms_c;
} ms_ocall_arrays_t;

typedef struct ms_ocall_raw_t {
	int ms_retval;
	void* ms_p;
} ms_ocall_raw_t;

typedef struct ms_ocall_deep_t {
	int ms_retval;
	struct deep* ms_d;
	size_t ms_n;
	int ms_attack;
} ms_ocall_deep_t;

typedef struct ms_ocall_list_t {
	size_t ms_retval;
	const void** ms_list;
	size_t ms_n;
} ms_ocall_list_t;

typedef struct ms_imported_ocall_t {
	int ms_retval;
	int ms_retval_;
	int ms_eid;
} ms_imported_ocall_t;

static sgx_status_t SGX_CDECL sgx_ecall_nothing(void* pms)
{
	if (pms != NULL)
		return SGX_ERROR_INVALID_PARAMETER;
	ecall_nothing();
	return SGX_SUCCESS;
}

static sgx_status_t SGX_CDECL sgx_ecall_values(void* pms)
{
	ms_ecall_values_t* ms = SGX_CAST(ms_ecall_values_t*, pms);
	ms_ecall_values_t in;
	sgx_status_t status = SGX_SUCCESS;

	if (pms == NULL || !sgx_is_outside_enclave(pms, sizeof(in)))
		return SGX_ERROR_INVALID_PARAMETER;
	edl_fence();
	memcpy((void*)&in, ms, sizeof(in));
	edl_fence(); /* from here on only this copy is looked at */
	ms->ms_retval = ecall_values(in.ms_c, in.ms_uc, in.ms_s, in.ms_us, in.ms_l, in.ms_ul, in.ms_ll, in.ms_ull, in.ms_i8, in.ms_u64, in.ms_f, in.ms_d, in.ms_z, in.ms_w);
	return status;
}

static sgx_status_t SGX_CDECL sgx_ecall_composites(void* pms)
{
	ms_ecall_composites_t* ms = SGX_CAST(ms_ecall_composites_t*, pms);
	ms_ecall_composites_t in;
	sgx_status_t status = SGX_SUCCESS;

	if (pms == NULL || !sgx_is_outside_enclave(pms, sizeof(in)))
		return SGX_ERROR_INVALID_PARAMETER;
	edl_fence();
	memcpy((void*)&in, ms, sizeof(in));
	edl_fence(); /* from here on only this copy is looked at */
	ms->ms_retval = ecall_composites(in.ms_p, in.ms_u, in.ms_c);
	return status;
}

static sgx_status_t SGX_CDECL sgx_ecall_sum(void* pms)
{
	ms_ecall_sum_t* ms = SGX_CAST(ms_ecall_sum_t*, pms);
	ms_ecall_sum_t in;
	sgx_status_t status = SGX_SUCCESS;
	const uint8_t* _tmp_data = NULL;
	size_t _len_data = 0;
	uint8_t* _in_data = NULL;

	if (pms == NULL || !sgx_is_outside_enclave(pms, sizeof(in)))
		return SGX_ERROR_INVALID_PARAMETER;
	edl_fence();
	memcpy((void*)&in, ms, sizeof(in));
	edl_fence(); /* from here on only this copy is looked at */
	_tmp_data = in.ms_data;
	if (edl_multiply((size_t)in.ms_len, 1U, &_len_data))
		return SGX_ERROR_INVALID_PARAMETER;
	if (_tmp_data != NULL && !sgx_is_outside_enclave((const void*)_tmp_data, _len_data))
		return SGX_ERROR_INVALID_PARAMETER;
	edl_fence();

	if (_tmp_data != NULL && _len_data != 0) {
		if (_len_data % sizeof(*_tmp_data) != 0) {
			status = SGX_ERROR_INVALID_PARAMETER;
			goto err;
		}
		_in_data = (uint8_t*)malloc(_len_data);
		if (_in_data == NULL) {
			status = SGX_ERROR_OUT_OF_MEMORY;
			goto err;
		}
		memcpy((void*)_in_data, (const void*)_tmp_data, _len_data);
	}
	ms->ms_retval = ecall_sum(_in_data, in.ms_len);

err:
	free((void*)_in_data);
	return status;
}

static sgx_status_t SGX_CDECL sgx_ecall_fill(void* pms)
{
	ms_ecall_fill_t* ms = SGX_CAST(ms_ecall_fill_t*, pms);
	ms_ecall_fill_t in;
	sgx_status_t status = SGX_SUCCESS;
	uint32_t* _tmp_to = NULL;
	size_t _len_to = 0;
	uint32_t* _in_to = NULL;

	if (pms == NULL || !sgx_is_outside_enclave(pms, sizeof(in)))
		return SGX_ERROR_INVALID_PARAMETER;
	edl_fence();
	memcpy((void*)&in, ms, sizeof(in));
	edl_fence(); /* from here on only this copy is looked at */
	_tmp_to = in.ms_to;
	if (edl_multiply(sizeof(*_tmp_to), (size_t)in.ms_n, &_len_to))
		return SGX_ERROR_INVALID_PARAMETER;
	if (_tmp_to != NULL && !sgx_is_outside_enclave((const void*)_tmp_to, _len_to))
		return SGX_ERROR_INVALID_PARAMETER;
	edl_fence();

	if (_tmp_to != NULL && _len_to != 0) {
		_in_to = (uint32_t*)malloc(_len_to);
		if (_in_to == NULL) {
			status = SGX_ERROR_OUT_OF_MEMORY;
			goto err;
		}
		memset((void*)_in_to, 0, _len_to);
	}
	ecall_fill(_in_to, in.ms_n, in.ms_value);
	if (_in_to != NULL) {
		memcpy((void*)_tmp_to, (const void*)_in_to, _len_to);
	}

err:
	free((void*)_in_to);
	return status;
}

static sgx_status_t SGX_CDECL sgx_ecall_reverse(void* pms)
{
	ms_ecall_reverse_t* ms = SGX_CAST(ms_ecall_reverse_t*, pms);
	ms_ecall_reverse_t in;
	sgx_status_t status = SGX_SUCCESS;
	char* _tmp_s = NULL;
	size_t _len_s = 0;
	char* _in_s = NULL;

	if (pms == NULL || !sgx_is_outside_enclave(pms, sizeof(in)))
		return SGX_ERROR_INVALID_PARAMETER;
	edl_fence();
	memcpy((void*)&in, ms, sizeof(in));
	edl_fence(); /* from here on only this copy is looked at */
	_tmp_s = in.ms_s;
	_len_s = in.ms_s_len;
	if (_tmp_s != NULL && !sgx_is_outside_enclave((const void*)_tmp_s, _len_s))
		return SGX_ERROR_INVALID_PARAMETER;
	edl_fence();

	if (_tmp_s != NULL) {
		if (_len_s == 0) {
			status = SGX_ERROR_INVALID_PARAMETER;
			goto err;
		}
		_in_s = (char*)malloc(_len_s);
		if (_in_s == NULL) {
			status = SGX_ERROR_OUT_OF_MEMORY;
			goto err;
		}
		memcpy((void*)_in_s, (const void*)_tmp_s, _len_s);
		_in_s[_len_s - 1] = 0;
		if (strlen((const char*)_in_s) + 1 != _len_s) {
			status = SGX_ERROR_UNEXPECTED;
			goto err;
		}
	}
	ms->ms_retval = ecall_reverse(_in_s);
	if (_in_s != NULL) {
		_in_s[_len_s - 1] = 0;
		_len_s = strlen((const char*)_in_s) + 1;
		memcpy((void*)_tmp_s, (const void*)_in_s, _len_s);
	}

err:
	free((void*)_in_s);
	return status;
}

static sgx_status_t SGX_CDECL sgx_ecall_wide(void* pms)
{
	ms_ecall_wide_t* ms = SGX_CAST(ms_ecall_wide_t*, pms);
	ms_ecall_wide_t in;
	sgx_status_t status = SGX_SUCCESS;
	const wchar_t* _tmp_s = NULL;
	size_t _len_s = 0;
	wchar_t* _in_s = NULL;

	if (pms == NULL || !sgx_is_outside_enclave(pms, sizeof(in)))
		return SGX_ERROR_INVALID_PARAMETER;
	edl_fence();
	memcpy((void*)&in, ms, sizeof(in));
	edl_fence(); /* from here on only this copy is looked at */
	_tmp_s = in.ms_s;
	_len_s = in.ms_s_len_;
	if (_tmp_s != NULL && !sgx_is_outside_enclave((const void*)_tmp_s, _len_s))
		return SGX_ERROR_INVALID_PARAMETER;
	edl_fence();

	if (_tmp_s != NULL) {
		if (_len_s == 0 || _len_s % sizeof(wchar_t) != 0) {
			status = SGX_ERROR_INVALID_PARAMETER;
			goto err;
		}
		_in_s = (wchar_t*)malloc(_len_s);
		if (_in_s == NULL) {
			status = SGX_ERROR_OUT_OF_MEMORY;
			goto err;
		}
		memcpy((void*)_in_s, (const void*)_tmp_s, _len_s);
		_in_s[_len_s / sizeof(wchar_t) - 1] = 0;
		if ((wcslen(_in_s) + 1) * sizeof(wchar_t) != _len_s) {
			status = SGX_ERROR_UNEXPECTED;
			goto err;
		}
	}
	ms->ms_retval = ecall_wide(_in_s, in.ms_s_len);

err:
	free((void*)_in_s);
	return status;
}

static sgx_status_t SGX_CDECL sgx_ecall_arrays(void* pms)
{
	ms_ecall_arrays_t* ms = SGX_CAST(ms_ecall_arrays_t*, pms);
	ms_ecall_arrays_t in;
	sgx_status_t status = SGX_SUCCESS;
	int* _tmp_a = NULL;
	size_t _len_a = 0;
	int* _in_a = NULL;
	int* _tmp_b = NULL;
	size_t _len_b = 0;
	int* _in_b = NULL;
	int* _tmp_c = NULL;
	size_t _len_c = 0;
	int* _in_c = NULL;

	if (pms == NULL || !sgx_is_outside_enclave(pms, sizeof(in)))
		return SGX_ERROR_INVALID_PARAMETER;
	edl_fence();
	memcpy((void*)&in, ms, sizeof(in));
	edl_fence(); /* from here on only this copy is looked at */
	_tmp_a = in.ms_a;
	if (edl_multiply(sizeof(int), 4U, &_len_a))
		return SGX_ERROR_INVALID_PARAMETER;
	if (_tmp_a != NULL && !sgx_is_outside_enclave((const void*)_tmp_a, _len_a))
		return SGX_ERROR_INVALID_PARAMETER;
	_tmp_b = in.ms_b;
	if (edl_multiply(sizeof(int), 4U, &_len_b))
		return SGX_ERROR_INVALID_PARAMETER;
	if (_tmp_b != NULL && !sgx_is_outside_enclave((const void*)_tmp_b, _len_b))
		return SGX_ERROR_INVALID_PARAMETER;
	_tmp_c = in.ms_c;
	if (edl_multiply(sizeof(int), 6U, &_len_c))
		return SGX_ERROR_INVALID_PARAMETER;
	if (_tmp_c != NULL && !sgx_is_outside_enclave((const void*)_tmp_c, _len_c))
		return SGX_ERROR_INVALID_PARAMETER;
	edl_fence();

	if (_tmp_a != NULL && _len_a != 0) {
		_in_a = (int*)malloc(_len_a);
		if (_in_a == NULL) {
			status = SGX_ERROR_OUT_OF_MEMORY;
			goto err;
		}
		memcpy((void*)_in_a, (const void*)_tmp_a, _len_a);
	}
	if (_tmp_b != NULL && _len_b != 0) {
		_in_b = (int*)malloc(_len_b);
		if (_in_b == NULL) {
			status = SGX_ERROR_OUT_OF_MEMORY;
			goto err;
		}
		memset((void*)_in_b, 0, _len_b);
	}
	if (_tmp_c != NULL && _len_c != 0) {
		_in_c = (int*)malloc(_len_c);
		if (_in_c == NULL) {
			status = SGX_ERROR_OUT_OF_MEMORY;
			goto err;
		}
		memcpy((void*)_in_c, (const void*)_tmp_c, _len_c);
	}
	ecall_arrays(_in_a, _in_b, (int (*)[3])_in_c, in.ms_d);
	if (_in_b != NULL) {
		memcpy((void*)_tmp_b, (const void*)_in_b, _len_b);
	}
	if (_in_c != NULL) {
		memcpy((void*)_tmp_c, (const void*)_in_c, _len_c);
	}

err:
	free((void*)_in_a);
	free((void*)_in_b);
	free((void*)_in_c);
	return status;
}

static sgx_status_t SGX_CDECL sgx_ecall_foreign(void* pms)
{
	ms_ecall_foreign_t* ms = SGX_CAST(ms_ecall_foreign_t*, pms);
	ms_ecall_foreign_t in;
	sgx_status_t status = SGX_SUCCESS;
	ro_buffer_t _tmp_b = NULL;
	size_t _len_b = 0;
	ro_buffer_t _in_b = NULL;
	array_t* _tmp_a = NULL;
	size_t _len_a = 0;
	array_t* _in_a = NULL;

	if (pms == NULL || !sgx_is_outside_enclave(pms, sizeof(in)))
		return SGX_ERROR_INVALID_PARAMETER;
	edl_fence();
	memcpy((void*)&in, ms, sizeof(in));
	edl_fence(); /* from here on only this copy is looked at */
	_tmp_b = in.ms_b;
	if (edl_multiply((size_t)in.ms_len, 1U, &_len_b))
		return SGX_ERROR_INVALID_PARAMETER;
	if (_tmp_b != NULL && !sgx_is_outside_enclave((const void*)_tmp_b, _len_b))
		return SGX_ERROR_INVALID_PARAMETER;
	_tmp_a = in.ms_a;
	if (edl_multiply(sizeof(array_t), 1U, &_len_a))
		return SGX_ERROR_INVALID_PARAMETER;
	if (_tmp_a != NULL && !sgx_is_outside_enclave((const void*)_tmp_a, _len_a))
		return SGX_ERROR_INVALID_PARAMETER;
	edl_fence();

	if (_tmp_b != NULL && _len_b != 0) {
		_in_b = (ro_buffer_t)malloc(_len_b);
		if (_in_b == NULL) {
			status = SGX_ERROR_OUT_OF_MEMORY;
			goto err;
		}
		memcpy((void*)_in_b, (const void*)_tmp_b, _len_b);
	}
	if (_tmp_a != NULL && _len_a != 0) {
		_in_a = (array_t*)malloc(_len_a);
		if (_in_a == NULL) {
			status = SGX_ERROR_OUT_OF_MEMORY;
			goto err;
		}
		memcpy((void*)_in_a, (const void*)_tmp_a, _len_a);
	}
	ms->ms_retval = ecall_foreign(_in_b, in.ms_len, (_in_a != NULL) ? *_in_a : NULL, in.ms_u);
	if (_in_a != NULL) {
		memcpy((void*)_tmp_a, (const void*)_in_a, _len_a);
	}

err:
	free((void*)_in_b);
	free((void*)_in_a);
	return status;
}

static sgx_status_t SGX_CDECL sgx_ecall_both(void* pms)
{
	ms_ecall_both_t* ms = SGX_CAST(ms_ecall_both_t*, pms);
	ms_ecall_both_t in;
	sgx_status_t status = SGX_SUCCESS;
	void* _tmp_p = NULL;
	size_t _len_p = 0;
	void* _in_p = NULL;

	if (pms == NULL || !sgx_is_outside_enclave(pms, sizeof(in)))
		return SGX_ERROR_INVALID_PARAMETER;
	edl_fence();
	memcpy((void*)&in, ms, sizeof(in));
	edl_fence(); /* from here on only this copy is looked at */
	_tmp_p = in.ms_p;
	if (edl_multiply((size_t)in.ms_size, (size_t)in.ms_count, &_len_p))
		return SGX_ERROR_INVALID_PARAMETER;
	if (_tmp_p != NULL && !sgx_is_outside_enclave((const void*)_tmp_p, _len_p))
		return SGX_ERROR_INVALID_PARAMETER;
	edl_fence();

	if (_tmp_p != NULL && _len_p != 0) {
		_in_p = (void*)malloc(_len_p);
		if (_in_p == NULL) {
			status = SGX_ERROR_OUT_OF_MEMORY;
			goto err;
		}
		memcpy((void*)_in_p, (const void*)_tmp_p, _len_p);
	}
	ecall_both(_in_p, in.ms_size, in.ms_count);
	if (_in_p != NULL) {
		memcpy((void*)_tmp_p, (const void*)_in_p, _len_p);
	}

err:
	free((void*)_in_p);
	return status;
}

static sgx_status_t SGX_CDECL sgx_ecall_raw(void* pms)
{
	ms_ecall_raw_t* ms = SGX_CAST(ms_ecall_raw_t*, pms);
	ms_ecall_raw_t in;
	sgx_status_t status = SGX_SUCCESS;

	if (pms == NULL || !sgx_is_outside_enclave(pms, sizeof(in)))
		return SGX_ERROR_INVALID_PARAMETER;
	edl_fence();
	memcpy((void*)&in, ms, sizeof(in));
	edl_fence(); /* from here on only this copy is looked at */
	ms->ms_retval = ecall_raw(in.ms_p, in.ms_names);
	return status;
}

static sgx_status_t SGX_CDECL sgx_ecall_deep(void* pms)
{
	ms_ecall_deep_t* ms = SGX_CAST(ms_ecall_deep_t*, pms);
	ms_ecall_deep_t in;
	sgx_status_t status = SGX_SUCCESS;
	struct deep* _tmp_d = NULL;
	size_t _len_d = 0;
	struct deep* _in_d = NULL;
	edl_deep* _deep_d = NULL;
	size_t _n_d = 0;
	size_t _i_d;

	if (pms == NULL || !sgx_is_outside_enclave(pms, sizeof(in)))
		return SGX_ERROR_INVALID_PARAMETER;
	edl_fence();
	memcpy((void*)&in, ms, sizeof(in));
	edl_fence(); /* from here on only this copy is looked at */
	_tmp_d = in.ms_d;
	if (edl_multiply(sizeof(*_tmp_d), (size_t)in.ms_n, &_len_d))
		return SGX_ERROR_INVALID_PARAMETER;
	if (_tmp_d != NULL && !sgx_is_outside_enclave((const void*)_tmp_d, _len_d))
		return SGX_ERROR_INVALID_PARAMETER;
	edl_fence();

	if (_tmp_d != NULL && _len_d != 0) {
		_in_d = (struct deep*)malloc(_len_d);
		if (_in_d == NULL) {
			status = SGX_ERROR_OUT_OF_MEMORY;
			goto err;
		}
		memcpy((void*)_in_d, (const void*)_tmp_d, _len_d);
		_n_d = _len_d / sizeof(*_in_d);
		_deep_d = (edl_deep*)calloc(_n_d, 2U * sizeof(edl_deep));
		if (_deep_d == NULL) {
			_n_d = 0;
			status = SGX_ERROR_OUT_OF_MEMORY;
			goto err;
		}
		for (_i_d = 0; _i_d < _n_d; _i_d++) {
			_deep_d[_i_d * 2U + 0U].outside = (void*)_in_d[_i_d].items;
			if (edl_multiply(sizeof(*_in_d[_i_d].items), (size_t)_in_d[_i_d].n, &_deep_d[_i_d * 2U + 0U].size))
				status = SGX_ERROR_INVALID_PARAMETER;
			else
				status = edl_deep_in(&_deep_d[_i_d * 2U + 0U]);
			if (status != SGX_SUCCESS)
				goto err;
			_in_d[_i_d].items = (uint16_t*)_deep_d[_i_d * 2U + 0U].inside;
			_deep_d[_i_d * 2U + 1U].outside = (void*)_in_d[_i_d].bytes;
			if (edl_multiply((size_t)_in_d[_i_d].len, 1U, &_deep_d[_i_d * 2U + 1U].size))
				status = SGX_ERROR_INVALID_PARAMETER;
			else
				status = edl_deep_in(&_deep_d[_i_d * 2U + 1U]);
			if (status != SGX_SUCCESS)
				goto err;
			_in_d[_i_d].bytes = (void*)_deep_d[_i_d * 2U + 1U].inside;
		}
	}
	ms->ms_retval = ecall_deep(_in_d, in.ms_n);
	if (_in_d != NULL) {
		for (_i_d = 0; _i_d < _n_d; _i_d++) {
			if (_deep_d[_i_d * 2U + 0U].inside != NULL)
				memcpy(_deep_d[_i_d * 2U + 0U].outside, _deep_d[_i_d * 2U + 0U].inside, _deep_d[_i_d * 2U + 0U].size);
			_in_d[_i_d].items = (uint16_t*)_deep_d[_i_d * 2U + 0U].outside;
			if (_deep_d[_i_d * 2U + 1U].inside != NULL)
				memcpy(_deep_d[_i_d * 2U + 1U].outside, _deep_d[_i_d * 2U + 1U].inside, _deep_d[_i_d * 2U + 1U].size);
			_in_d[_i_d].bytes = (void*)_deep_d[_i_d * 2U + 1U].outside;
		}
		memcpy((void*)_tmp_d, (const void*)_in_d, _len_d);
	}

err:
	edl_deep_free(_deep_d, _n_d * 2U);
	free((void*)_in_d);
	return status;
}

static sgx_status_t SGX_CDECL sgx_ecall_ocalls(void* pms)
{
	ms_ecall_ocalls_t* ms = SGX_CAST(ms_ecall_ocalls_t*, pms);
	ms_ecall_ocalls_t in;
	sgx_status_t status = SGX_SUCCESS;

	if (pms == NULL || !sgx_is_outside_enclave(pms, sizeof(in)))
		return SGX_ERROR_INVALID_PARAMETER;
	edl_fence();
	memcpy((void*)&in, ms, sizeof(in));
	edl_fence(); /* from here on only this copy is looked at */
	ms->ms_retval = ecall_ocalls(in.ms_what);
	return status;
}

static sgx_status_t SGX_CDECL sgx_ecall_threads(void* pms)
{
	ms_ecall_threads_t* ms = SGX_CAST(ms_ecall_threads_t*, pms);
	ms_ecall_threads_t in;
	sgx_status_t status = SGX_SUCCESS;

	if (pms == NULL || !sgx_is_outside_enclave(pms, sizeof(in)))
		return SGX_ERROR_INVALID_PARAMETER;
	edl_fence();
	memcpy((void*)&in, ms, sizeof(in));
	edl_fence(); /* from here on only this copy is looked at */
	ms->ms_retval = ecall_threads(in.ms_x);
	return status;
}

static sgx_status_t SGX_CDECL sgx_ecall_private(void* pms)
{
	ms_ecall_private_t* ms = SGX_CAST(ms_ecall_private_t*, pms);
	ms_ecall_private_t in;
	sgx_status_t status = SGX_SUCCESS;

	if (pms == NULL || !sgx_is_outside_enclave(pms, sizeof(in)))
		return SGX_ERROR_INVALID_PARAMETER;
	edl_fence();
	memcpy((void*)&in, ms, sizeof(in));
	edl_fence(); /* from here on only this copy is looked at */
	ms->ms_retval = ecall_private(in.ms_x);
	return status;
}

static sgx_status_t SGX_CDECL sgx_ecall_list(void* pms)
{
	ms_ecall_list_t* ms = SGX_CAST(ms_ecall_list_t*, pms);
	ms_ecall_list_t in;
	sgx_status_t status = SGX_SUCCESS;
	const void** _tmp_list = NULL;
	size_t _len_list = 0;
	const void** _in_list = NULL;

	if (pms == NULL || !sgx_is_outside_enclave(pms, sizeof(in)))
		return SGX_ERROR_INVALID_PARAMETER;
	edl_fence();
	memcpy((void*)&in, ms, sizeof(in));
	edl_fence(); /* from here on only this copy is looked at */
	_tmp_list = in.ms_list;
	if (edl_multiply(sizeof(*_tmp_list), (size_t)in.ms_n, &_len_list))
		return SGX_ERROR_INVALID_PARAMETER;
	if (_tmp_list != NULL && !sgx_is_outside_enclave((const void*)_tmp_list, _len_list))
		return SGX_ERROR_INVALID_PARAMETER;
	edl_fence();

	if (_tmp_list != NULL && _len_list != 0) {
		_in_list = (const void**)malloc(_len_list);
		if (_in_list == NULL) {
			status = SGX_ERROR_OUT_OF_MEMORY;
			goto err;
		}
		memcpy((void*)_in_list, (const void*)_tmp_list, _len_list);
	}
	ms->ms_retval = ecall_list(_in_list, in.ms_n);

err:
	free((void*)_in_list);
	return status;
}

static sgx_status_t SGX_CDECL sgx_imported_ecall(void* pms)
{
	ms_imported_ecall_t* ms = SGX_CAST(ms_imported_ecall_t*, pms);
	ms_imported_ecall_t in;
	sgx_status_t status = SGX_SUCCESS;
	int* _tmp_status = NULL;
	size_t _len_status = 0;
	int* _in_status = NULL;

	if (pms == NULL || !sgx_is_outside_enclave(pms, sizeof(in)))
		return SGX_ERROR_INVALID_PARAMETER;
	edl_fence();
	memcpy((void*)&in, ms, sizeof(in));
	edl_fence(); /* from here on only this copy is looked at */
	_tmp_status = in.ms_status;
	if (edl_multiply(sizeof(*_tmp_status), 1U, &_len_status))
		return SGX_ERROR_INVALID_PARAMETER;
	if (_tmp_status != NULL && !sgx_is_outside_enclave((const void*)_tmp_status, _len_status))
		return SGX_ERROR_INVALID_PARAMETER;
	edl_fence();

	if (_tmp_status != NULL && _len_status != 0) {
		_in_status = (int*)malloc(_len_status);
		if (_in_status == NULL) {
			status = SGX_ERROR_OUT_OF_MEMORY;
			goto err;
		}
		memcpy((void*)_in_status, (const void*)_tmp_status, _len_status);
	}
	ms->ms_retval = imported_ecall(_in_status, in.ms_ms);

err:
	free((void*)_in_status);
	return status;
}

#ifdef __cplusplus
extern "C" {
#endif

struct edl_ecall_table {
	size_t nr_ecall;
	struct {
		void* ecall_addr;
		uint8_t is_priv;
		uint8_t is_switchless;
	} ecall_table[17];
};
extern const struct edl_ecall_table g_ecall_table;
const struct edl_ecall_table g_ecall_table = {
	17,
	{
		{(void*)sgx_ecall_nothing, 0, 0},
		{(void*)sgx_ecall_values, 0, 0},
		{(void*)sgx_ecall_composites, 0, 0},
		{(void*)sgx_ecall_sum, 0, 0},
		{(void*)sgx_ecall_fill, 0, 0},
		{(void*)sgx_ecall_reverse, 0, 0},
		{(void*)sgx_ecall_wide, 0, 0},
		{(void*)sgx_ecall_arrays, 0, 0},
		{(void*)sgx_ecall_foreign, 0, 0},
		{(void*)sgx_ecall_both, 0, 0},
		{(void*)sgx_ecall_raw, 0, 0},
		{(void*)sgx_ecall_deep, 0, 0},
		{(void*)sgx_ecall_ocalls, 0, 0},
		{(void*)sgx_ecall_threads, 0, 1},
		{(void*)sgx_ecall_private, 1, 0},
		{(void*)sgx_ecall_list, 0, 0},
		{(void*)sgx_imported_ecall, 0, 0},
	}
};

struct edl_entry_table {
	size_t nr_ocall;
	uint8_t entry_table[10][17];
};
extern const struct edl_entry_table g_dyn_entry_table;
const struct edl_entry_table g_dyn_entry_table = {
	10,
	{
		{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0},
		{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
	}
};

#ifdef __cplusplus
}
#endif

sgx_status_t SGX_CDECL ocall_nothing(void)
{
	return sgx_ocall(0, NULL);
}

sgx_status_t SGX_CDECL ocall_print(int* retval, const char* s)
{
	sgx_status_t _edl_status = SGX_SUCCESS;
	ms_ocall_print_t* _edl_ms = NULL;
	void* _edl_next = NULL;
	size_t _edl_size = 0;
	size_t _len_s = 0;
	void* _out_s = NULL;

	if (edl_add(&_edl_size, sizeof(*_edl_ms)))
		return SGX_ERROR_INVALID_PARAMETER;
	if (s != NULL) {
		_len_s = strlen((const char*)s) + 1;
		if (!sgx_is_within_enclave((const void*)s, _len_s) || edl_add(&_edl_size, _len_s))
			return SGX_ERROR_INVALID_PARAMETER;
	}

	_edl_next = sgx_ocalloc(_edl_size);
	if (_edl_next == NULL) {
		sgx_ocfree();
		return SGX_ERROR_UNEXPECTED;
	}
	_edl_ms = (ms_ocall_print_t*)edl_take(&_edl_next, sizeof(*_edl_ms));
	if (s != NULL && _len_s != 0) {
		_out_s = edl_take(&_edl_next, _len_s);
		memcpy(_out_s, (const void*)s, _len_s);
	}
	_edl_ms->ms_s = (const char*)_out_s;
	_edl_ms->ms_s_len = _len_s;

	_edl_status = sgx_ocall(1, _edl_ms);
	if (_edl_status == SGX_SUCCESS) {
		if (retval)
			*retval = _edl_ms->ms_retval;
		errno = _edl_ms->ocall_errno;
	}
	sgx_ocfree();
	return _edl_status;
}

sgx_status_t SGX_CDECL ocall_nested(int* retval, int x)
{
	sgx_status_t _edl_status = SGX_SUCCESS;
	ms_ocall_nested_t* _edl_ms = NULL;
	void* _edl_next = NULL;
	size_t _edl_size = 0;

	if (edl_add(&_edl_size, sizeof(*_edl_ms)))
		return SGX_ERROR_INVALID_PARAMETER;

	_edl_next = sgx_ocalloc(_edl_size);
	if (_edl_next == NULL) {
		sgx_ocfree();
		return SGX_ERROR_UNEXPECTED;
	}
	_edl_ms = (ms_ocall_nested_t*)edl_take(&_edl_next, sizeof(*_edl_ms));
	_edl_ms->ms_x = x;

	_edl_status = sgx_ocall(2, _edl_ms);
	if (_edl_status == SGX_SUCCESS) {
		if (retval)
			*retval = _edl_ms->ms_retval;
	}
	sgx_ocfree();
	return _edl_status;
}

sgx_status_t SGX_CDECL ocall_swap(uint32_t* v, size_t n, struct point* p)
{
	sgx_status_t _edl_status = SGX_SUCCESS;
	ms_ocall_swap_t* _edl_ms = NULL;
	void* _edl_next = NULL;
	size_t _edl_size = 0;
	size_t _len_v = 0;
	void* _out_v = NULL;
	size_t _len_p = 0;
	void* _out_p = NULL;

	if (edl_add(&_edl_size, sizeof(*_edl_ms)))
		return SGX_ERROR_INVALID_PARAMETER;
	if (v != NULL) {
		if (edl_multiply(sizeof(*v), (size_t)n, &_len_v))
			return SGX_ERROR_INVALID_PARAMETER;
		if (!sgx_is_within_enclave((const void*)v, _len_v) || edl_add(&_edl_size, _len_v))
			return SGX_ERROR_INVALID_PARAMETER;
	}
	if (p != NULL) {
		if (edl_multiply(sizeof(*p), 1U, &_len_p))
			return SGX_ERROR_INVALID_PARAMETER;
		if (!sgx_is_within_enclave((const void*)p, _len_p) || edl_add(&_edl_size, _len_p))
			return SGX_ERROR_INVALID_PARAMETER;
	}

	_edl_next = sgx_ocalloc(_edl_size);
	if (_edl_next == NULL) {
		sgx_ocfree();
		return SGX_ERROR_UNEXPECTED;
	}
	_edl_ms = (ms_ocall_swap_t*)edl_take(&_edl_next, sizeof(*_edl_ms));
	if (v != NULL && _len_v != 0) {
		_out_v = edl_take(&_edl_next, _len_v);
		memcpy(_out_v, (const void*)v, _len_v);
	}
	_edl_ms->ms_v = (uint32_t*)_out_v;
	_edl_ms->ms_n = n;
	if (p != NULL && _len_p != 0) {
		_out_p = edl_take(&_edl_next, _len_p);
		memset(_out_p, 0, _len_p);
	}
	_edl_ms->ms_p = (struct point*)_out_p;

	_edl_status = sgx_ocall(3, _edl_ms);
	if (_edl_status == SGX_SUCCESS) {
		if (_out_v != NULL) {
			memcpy((void*)v, _out_v, _len_v);
		}
		if (_out_p != NULL) {
			memcpy((void*)p, _out_p, _len_p);
		}
	}
	sgx_ocfree();
	return _edl_status;
}

sgx_status_t SGX_CDECL ocall_text(int* retval, char* s, const wchar_t* w)
{
	sgx_status_t _edl_status = SGX_SUCCESS;
	ms_ocall_text_t* _edl_ms = NULL;
	void* _edl_next = NULL;
	size_t _edl_size = 0;
	size_t _len_s = 0;
	void* _out_s = NULL;
	size_t _len_w = 0;
	void* _out_w = NULL;

	if (edl_add(&_edl_size, sizeof(*_edl_ms)))
		return SGX_ERROR_INVALID_PARAMETER;
	if (s != NULL) {
		_len_s = strlen((const char*)s) + 1;
		if (!sgx_is_within_enclave((const void*)s, _len_s) || edl_add(&_edl_size, _len_s))
			return SGX_ERROR_INVALID_PARAMETER;
	}
	if (w != NULL) {
		_len_w = (wcslen(w) + 1) * sizeof(wchar_t);
		if (!sgx_is_within_enclave((const void*)w, _len_w) || edl_add(&_edl_size, _len_w))
			return SGX_ERROR_INVALID_PARAMETER;
	}

	_edl_next = sgx_ocalloc(_edl_size);
	if (_edl_next == NULL) {
		sgx_ocfree();
		return SGX_ERROR_UNEXPECTED;
	}
	_edl_ms = (ms_ocall_text_t*)edl_take(&_edl_next, sizeof(*_edl_ms));
	if (s != NULL && _len_s != 0) {
		_out_s = edl_take(&_edl_next, _len_s);
		memcpy(_out_s, (const void*)s, _len_s);
	}
	_edl_ms->ms_s = (char*)_out_s;
	_edl_ms->ms_s_len = _len_s;
	if (w != NULL && _len_w != 0) {
		_out_w = edl_take(&_edl_next, _len_w);
		memcpy(_out_w, (const void*)w, _len_w);
	}
	_edl_ms->ms_w = (const wchar_t*)_out_w;
	_edl_ms->ms_w_len = _len_w;

	_edl_status = sgx_ocall(4, _edl_ms);
	if (_edl_status == SGX_SUCCESS) {
		if (retval)
			*retval = _edl_ms->ms_retval;
		if (_out_s != NULL) {
			memcpy((void*)s, _out_s, _len_s);
			s[_len_s - 1] = 0;
		}
	}
	sgx_ocfree();
	return _edl_status;
}

sgx_status_t SGX_CDECL ocall_arrays(int a[4], int b[2][2], array_t c)
{
	sgx_status_t _edl_status = SGX_SUCCESS;
	ms_ocall_arrays_t* _edl_ms = NULL;
	void* _edl_next = NULL;
	size_t _edl_size = 0;
	size_t _len_a = 0;
	void* _out_a = NULL;
	size_t _len_b = 0;
	void* _out_b = NULL;
	size_t _len_c = 0;
	void* _out_c = NULL;

	if (edl_add(&_edl_size, sizeof(*_edl_ms)))
		return SGX_ERROR_INVALID_PARAMETER;
	if (a != NULL) {
		if (edl_multiply(sizeof(int), 4U, &_len_a))
			return SGX_ERROR_INVALID_PARAMETER;
		if (!sgx_is_within_enclave((const void*)a, _len_a) || edl_add(&_edl_size, _len_a))
			return SGX_ERROR_INVALID_PARAMETER;
	}
	if (b != NULL) {
		if (edl_multiply(sizeof(int), 4U, &_len_b))
			return SGX_ERROR_INVALID_PARAMETER;
		if (!sgx_is_within_enclave((const void*)b, _len_b) || edl_add(&_edl_size, _len_b))
			return SGX_ERROR_INVALID_PARAMETER;
	}
	if (c != NULL) {
		if (edl_multiply(sizeof(array_t), 1U, &_len_c))
			return SGX_ERROR_INVALID_PARAMETER;
		if (!sgx_is_within_enclave((const void*)c, _len_c) || edl_add(&_edl_size, _len_c))
			return SGX_ERROR_INVALID_PARAMETER;
	}

	_edl_next = sgx_ocalloc(_edl_size);
	if (_edl_next == NULL) {
		sgx_ocfree();
		return SGX_ERROR_UNEXPECTED;
	}
	_edl_ms = (ms_ocall_arrays_t*)edl_take(&_edl_next, sizeof(*_edl_ms));
	if (a != NULL && _len_a != 0) {
		_out_a = edl_take(&_edl_next, _len_a);
		memcpy(_out_a, (const void*)a, _len_a);
	}
	_edl_ms->ms_a = (int*)_out_a;
	if (b != NULL && _len_b != 0) {
		_out_b = edl_take(&_edl_next, _len_b);
		memset(_out_b, 0, _len_b);
	}
	_edl_ms->ms_b = (int*)_out_b;
	if (c != NULL && _len_c != 0) {
		_out_c = edl_take(&_edl_next, _len_c);
		memcpy(_out_c, (const void*)c, _len_c);
	}
	_edl_ms->ms_c = (array_t*)_out_c;

	_edl_status = sgx_ocall(5, _edl_ms);
	if (_edl_status == SGX_SUCCESS) {
		if (_out_b != NULL) {
			memcpy((void*)b, _out_b, _len_b);
		}
		if (_out_c != NULL) {
			memcpy((void*)c, _out_c, _len_c);
		}
	}
	sgx_ocfree();
	return _edl_status;
}

sgx_status_t SGX_CDECL ocall_raw(int* retval, void* p)
{
	sgx_status_t _edl_status = SGX_SUCCESS;
	ms_ocall_raw_t* _edl_ms = NULL;
	void* _edl_next = NULL;
	size_t _edl_size = 0;

	if (edl_add(&_edl_size, sizeof(*_edl_ms)))
		return SGX_ERROR_INVALID_PARAMETER;

	_edl_next = sgx_ocalloc(_edl_size);
	if (_edl_next == NULL) {
		sgx_ocfree();
		return SGX_ERROR_UNEXPECTED;
	}
	_edl_ms = (ms_ocall_raw_t*)edl_take(&_edl_next, sizeof(*_edl_ms));
	_edl_ms->ms_p = p;

	_edl_status = sgx_ocall_switchless(6, _edl_ms);
	if (_edl_status == SGX_SUCCESS) {
		if (retval)
			*retval = _edl_ms->ms_retval;
	}
	sgx_ocfree();
	return _edl_status;
}

sgx_status_t SGX_CDECL ocall_deep(int* retval, struct deep* d, size_t n, int attack)
{
	sgx_status_t _edl_status = SGX_SUCCESS;
	ms_ocall_deep_t* _edl_ms = NULL;
	void* _edl_next = NULL;
	size_t _edl_size = 0;
	size_t _len_d = 0;
	void* _out_d = NULL;
	edl_deep* _deep_d = NULL;
	size_t _n_d = 0;
	size_t _i_d;

	if (edl_add(&_edl_size, sizeof(*_edl_ms)))
	{
		_edl_status = SGX_ERROR_INVALID_PARAMETER;
		goto _edl_end;
	}
	if (d != NULL) {
		if (edl_multiply(sizeof(*d), (size_t)n, &_len_d))
		{
			_edl_status = SGX_ERROR_INVALID_PARAMETER;
			goto _edl_end;
		}
		if (!sgx_is_within_enclave((const void*)d, _len_d) || edl_add(&_edl_size, _len_d))
		{
			_edl_status = SGX_ERROR_INVALID_PARAMETER;
			goto _edl_end;
		}
		_n_d = _len_d / sizeof(*d);
		_deep_d = (edl_deep*)calloc(_n_d + 1, 2U * sizeof(edl_deep));
		if (_deep_d == NULL) {
			_edl_status = SGX_ERROR_OUT_OF_MEMORY;
			goto _edl_end;
		}
		for (_i_d = 0; _i_d < _n_d; _i_d++) {
			_deep_d[_i_d * 2U + 0U].inside = (void*)d[_i_d].items;
			if (_deep_d[_i_d * 2U + 0U].inside != NULL && (edl_multiply(sizeof(*d[_i_d].items), (size_t)d[_i_d].n, &_deep_d[_i_d * 2U + 0U].size) ||
			    !sgx_is_within_enclave(_deep_d[_i_d * 2U + 0U].inside, _deep_d[_i_d * 2U + 0U].size) || edl_add(&_edl_size, _deep_d[_i_d * 2U + 0U].size))) {
				_edl_status = SGX_ERROR_INVALID_PARAMETER;
				goto _edl_end;
			}
			_deep_d[_i_d * 2U + 1U].inside = (void*)d[_i_d].bytes;
			if (_deep_d[_i_d * 2U + 1U].inside != NULL && (edl_multiply((size_t)d[_i_d].len, 1U, &_deep_d[_i_d * 2U + 1U].size) ||
			    !sgx_is_within_enclave(_deep_d[_i_d * 2U + 1U].inside, _deep_d[_i_d * 2U + 1U].size) || edl_add(&_edl_size, _deep_d[_i_d * 2U + 1U].size))) {
				_edl_status = SGX_ERROR_INVALID_PARAMETER;
				goto _edl_end;
			}
		}
	}

	_edl_next = sgx_ocalloc(_edl_size);
	if (_edl_next == NULL) {
		sgx_ocfree();
		_edl_status = SGX_ERROR_UNEXPECTED;
		goto _edl_end;
	}
	_edl_ms = (ms_ocall_deep_t*)edl_take(&_edl_next, sizeof(*_edl_ms));
	if (d != NULL && _len_d != 0) {
		_out_d = edl_take(&_edl_next, _len_d);
		memcpy(_out_d, (const void*)d, _len_d);
		for (_i_d = 0; _i_d < _n_d; _i_d++) {
			if (_deep_d[_i_d * 2U + 0U].inside != NULL && _deep_d[_i_d * 2U + 0U].size != 0) {
				_deep_d[_i_d * 2U + 0U].outside = edl_take(&_edl_next, _deep_d[_i_d * 2U + 0U].size);
				memcpy(_deep_d[_i_d * 2U + 0U].outside, _deep_d[_i_d * 2U + 0U].inside, _deep_d[_i_d * 2U + 0U].size);
			}
			((struct deep*)_out_d)[_i_d].items = (uint16_t*)_deep_d[_i_d * 2U + 0U].outside;
			if (_deep_d[_i_d * 2U + 1U].inside != NULL && _deep_d[_i_d * 2U + 1U].size != 0) {
				_deep_d[_i_d * 2U + 1U].outside = edl_take(&_edl_next, _deep_d[_i_d * 2U + 1U].size);
				memcpy(_deep_d[_i_d * 2U + 1U].outside, _deep_d[_i_d * 2U + 1U].inside, _deep_d[_i_d * 2U + 1U].size);
			}
			((struct deep*)_out_d)[_i_d].bytes = (void*)_deep_d[_i_d * 2U + 1U].outside;
		}
	}
	_edl_ms->ms_d = (struct deep*)_out_d;
	_edl_ms->ms_n = n;
	_edl_ms->ms_attack = attack;

	_edl_status = sgx_ocall(7, _edl_ms);
	if (_edl_status == SGX_SUCCESS) {
		if (retval)
			*retval = _edl_ms->ms_retval;
		if (_out_d != NULL) {
			for (_i_d = 0; _i_d < _n_d; _i_d++) {
				struct deep _edl_e;
				size_t _edl_l = 0;
				memcpy((void*)&_edl_e, (const struct deep*)_out_d + _i_d, sizeof(_edl_e));
				edl_fence();
				if (edl_multiply(sizeof(*_edl_e.items), (size_t)_edl_e.n, &_edl_l) || (_deep_d[_i_d * 2U + 0U].inside != NULL && _edl_l > _deep_d[_i_d * 2U + 0U].size)) {
					_edl_status = SGX_ERROR_UNEXPECTED;
					break;
				}
				if (edl_multiply((size_t)_edl_e.len, 1U, &_edl_l) || (_deep_d[_i_d * 2U + 1U].inside != NULL && _edl_l > _deep_d[_i_d * 2U + 1U].size)) {
					_edl_status = SGX_ERROR_UNEXPECTED;
					break;
				}
				if (_deep_d[_i_d * 2U + 0U].outside != NULL)
					memcpy(_deep_d[_i_d * 2U + 0U].inside, _deep_d[_i_d * 2U + 0U].outside, _deep_d[_i_d * 2U + 0U].size);
				_edl_e.items = (uint16_t*)_deep_d[_i_d * 2U + 0U].inside;
				if (_deep_d[_i_d * 2U + 1U].outside != NULL)
					memcpy(_deep_d[_i_d * 2U + 1U].inside, _deep_d[_i_d * 2U + 1U].outside, _deep_d[_i_d * 2U + 1U].size);
				_edl_e.bytes = (void*)_deep_d[_i_d * 2U + 1U].inside;
				memcpy((void*)&d[_i_d], (const void*)&_edl_e, sizeof(_edl_e));
			}
		}
	}
	sgx_ocfree();

_edl_end:
	free(_deep_d);
	return _edl_status;
}

sgx_status_t SGX_CDECL ocall_list(size_t* retval, const void** list, size_t n)
{
	sgx_status_t _edl_status = SGX_SUCCESS;
	ms_ocall_list_t* _edl_ms = NULL;
	void* _edl_next = NULL;
	size_t _edl_size = 0;
	size_t _len_list = 0;
	void* _out_list = NULL;

	if (edl_add(&_edl_size, sizeof(*_edl_ms)))
		return SGX_ERROR_INVALID_PARAMETER;
	if (list != NULL) {
		if (edl_multiply(sizeof(*list), (size_t)n, &_len_list))
			return SGX_ERROR_INVALID_PARAMETER;
		if (!sgx_is_within_enclave((const void*)list, _len_list) || edl_add(&_edl_size, _len_list))
			return SGX_ERROR_INVALID_PARAMETER;
	}

	_edl_next = sgx_ocalloc(_edl_size);
	if (_edl_next == NULL) {
		sgx_ocfree();
		return SGX_ERROR_UNEXPECTED;
	}
	_edl_ms = (ms_ocall_list_t*)edl_take(&_edl_next, sizeof(*_edl_ms));
	if (list != NULL && _len_list != 0) {
		_out_list = edl_take(&_edl_next, _len_list);
		memcpy(_out_list, (const void*)list, _len_list);
	}
	_edl_ms->ms_list = (const void**)_out_list;
	_edl_ms->ms_n = n;

	_edl_status = sgx_ocall(8, _edl_ms);
	if (_edl_status == SGX_SUCCESS) {
		if (retval)
			*retval = _edl_ms->ms_retval;
	}
	sgx_ocfree();
	return _edl_status;
}

sgx_status_t SGX_CDECL imported_ocall(int* _edl_retval, int retval, int eid)
{
	sgx_status_t _edl_status = SGX_SUCCESS;
	ms_imported_ocall_t* _edl_ms = NULL;
	void* _edl_next = NULL;
	size_t _edl_size = 0;

	if (edl_add(&_edl_size, sizeof(*_edl_ms)))
		return SGX_ERROR_INVALID_PARAMETER;

	_edl_next = sgx_ocalloc(_edl_size);
	if (_edl_next == NULL) {
		sgx_ocfree();
		return SGX_ERROR_UNEXPECTED;
	}
	_edl_ms = (ms_imported_ocall_t*)edl_take(&_edl_next, sizeof(*_edl_ms));
	_edl_ms->ms_retval_ = retval;
	_edl_ms->ms_eid = eid;

	_edl_status = sgx_ocall(9, _edl_ms);
	if (_edl_status == SGX_SUCCESS) {
		if (_edl_retval)
			*_edl_retval = _edl_ms->ms_retval;
	}
	sgx_ocfree();
	return _edl_status;
}

