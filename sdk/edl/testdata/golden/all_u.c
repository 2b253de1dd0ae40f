/* Made by holdfast enclave edger8r. Change the EDL file, not this one. */
#include "all_u.h"
#include <errno.h>
#include <string.h>

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

static sgx_status_t SGX_CDECL all_ocall_nothing(void* pms)
{
	if (pms != NULL)
		return SGX_ERROR_INVALID_PARAMETER;
	ocall_nothing();
	return SGX_SUCCESS;
}

static sgx_status_t SGX_CDECL all_ocall_print(void* pms)
{
	ms_ocall_print_t* ms = SGX_CAST(ms_ocall_print_t*, pms);
	ms->ms_retval = ocall_print(ms->ms_s);
	ms->ocall_errno = errno;
	return SGX_SUCCESS;
}

static sgx_status_t SGX_CDECL all_ocall_nested(void* pms)
{
	ms_ocall_nested_t* ms = SGX_CAST(ms_ocall_nested_t*, pms);
	ms->ms_retval = ocall_nested(ms->ms_x);
	return SGX_SUCCESS;
}

static sgx_status_t SGX_CDECL all_ocall_swap(void* pms)
{
	ms_ocall_swap_t* ms = SGX_CAST(ms_ocall_swap_t*, pms);
	ocall_swap(ms->ms_v, ms->ms_n, ms->ms_p);
	return SGX_SUCCESS;
}

static sgx_status_t SGX_CDECL all_ocall_text(void* pms)
{
	ms_ocall_text_t* ms = SGX_CAST(ms_ocall_text_t*, pms);
	ms->ms_retval = ocall_text(ms->ms_s, ms->ms_w);
	return SGX_SUCCESS;
}

static sgx_status_t SGX_CDECL all_ocall_arrays(void* pms)
{
	ms_ocall_arrays_t* ms = SGX_CAST(ms_ocall_arrays_t*, pms);
	ocall_arrays(ms->ms_a, (int (*)[2])ms->ms_b, (ms->ms_c != NULL) ? *ms->ms_c : NULL);
	return SGX_SUCCESS;
}

static sgx_status_t SGX_CDECL all_ocall_raw(void* pms)
{
	ms_ocall_raw_t* ms = SGX_CAST(ms_ocall_raw_t*, pms);
	ms->ms_retval = ocall_raw(ms->ms_p);
	return SGX_SUCCESS;
}

static sgx_status_t SGX_CDECL all_ocall_deep(void* pms)
{
	ms_ocall_deep_t* ms = SGX_CAST(ms_ocall_deep_t*, pms);
	ms->ms_retval = ocall_deep(ms->ms_d, ms->ms_n, ms->ms_attack);
	return SGX_SUCCESS;
}

static sgx_status_t SGX_CDECL all_ocall_list(void* pms)
{
	ms_ocall_list_t* ms = SGX_CAST(ms_ocall_list_t*, pms);
	ms->ms_retval = ocall_list(ms->ms_list, ms->ms_n);
	return SGX_SUCCESS;
}

static sgx_status_t SGX_CDECL all_imported_ocall(void* pms)
{
	ms_imported_ocall_t* ms = SGX_CAST(ms_imported_ocall_t*, pms);
	ms->ms_retval = imported_ocall(ms->ms_retval_, ms->ms_eid);
	return SGX_SUCCESS;
}

static const struct {
	size_t nr_ocall;
	void* table[10];
} ocall_table_all = {
	10,
	{
		(void*)all_ocall_nothing,
		(void*)all_ocall_print,
		(void*)all_ocall_nested,
		(void*)all_ocall_swap,
		(void*)all_ocall_text,
		(void*)all_ocall_arrays,
		(void*)all_ocall_raw,
		(void*)all_ocall_deep,
		(void*)all_ocall_list,
		(void*)all_imported_ocall,
	}
};

sgx_status_t ecall_nothing(sgx_enclave_id_t eid)
{
	sgx_status_t _edl_status;
	_edl_status = sgx_ecall(eid, 0, &ocall_table_all, NULL);
	return _edl_status;
}

sgx_status_t ecall_values(sgx_enclave_id_t eid, int* retval, char c, unsigned char uc, short s, unsigned short us, long l, unsigned long ul, long long ll, unsigned long long ull, int8_t i8, uint64_t u64, float f, double d, size_t z, wchar_t w)
{
	sgx_status_t _edl_status;
	ms_ecall_values_t _edl_ms;
	_edl_ms.ms_c = c;
	_edl_ms.ms_uc = uc;
	_edl_ms.ms_s = s;
	_edl_ms.ms_us = us;
	_edl_ms.ms_l = l;
	_edl_ms.ms_ul = ul;
	_edl_ms.ms_ll = ll;
	_edl_ms.ms_ull = ull;
	_edl_ms.ms_i8 = i8;
	_edl_ms.ms_u64 = u64;
	_edl_ms.ms_f = f;
	_edl_ms.ms_d = d;
	_edl_ms.ms_z = z;
	_edl_ms.ms_w = w;
	_edl_status = sgx_ecall(eid, 1, &ocall_table_all, &_edl_ms);
	if (_edl_status == SGX_SUCCESS && retval)
		*retval = _edl_ms.ms_retval;
	return _edl_status;
}

sgx_status_t ecall_composites(sgx_enclave_id_t eid, long double* retval, struct point p, union number u, enum colour c)
{
	sgx_status_t _edl_status;
	ms_ecall_composites_t _edl_ms;
	_edl_ms.ms_p = p;
	_edl_ms.ms_u = u;
	_edl_ms.ms_c = c;
	_edl_status = sgx_ecall(eid, 2, &ocall_table_all, &_edl_ms);
	if (_edl_status == SGX_SUCCESS && retval)
		*retval = _edl_ms.ms_retval;
	return _edl_status;
}

sgx_status_t ecall_sum(sgx_enclave_id_t eid, uint64_t* retval, const uint8_t* data, size_t len)
{
	sgx_status_t _edl_status;
	ms_ecall_sum_t _edl_ms;
	_edl_ms.ms_data = data;
	_edl_ms.ms_len = len;
	_edl_status = sgx_ecall(eid, 3, &ocall_table_all, &_edl_ms);
	if (_edl_status == SGX_SUCCESS && retval)
		*retval = _edl_ms.ms_retval;
	return _edl_status;
}

sgx_status_t ecall_fill(sgx_enclave_id_t eid, uint32_t* to, size_t n, uint32_t value)
{
	sgx_status_t _edl_status;
	ms_ecall_fill_t _edl_ms;
	_edl_ms.ms_to = to;
	_edl_ms.ms_n = n;
	_edl_ms.ms_value = value;
	_edl_status = sgx_ecall(eid, 4, &ocall_table_all, &_edl_ms);
	return _edl_status;
}

sgx_status_t ecall_reverse(sgx_enclave_id_t eid, int* retval, char* s)
{
	sgx_status_t _edl_status;
	ms_ecall_reverse_t _edl_ms;
	_edl_ms.ms_s = s;
	_edl_ms.ms_s_len = s ? strlen((const char*)s) + 1 : 0;
	_edl_status = sgx_ecall(eid, 5, &ocall_table_all, &_edl_ms);
	if (_edl_status == SGX_SUCCESS && retval)
		*retval = _edl_ms.ms_retval;
	return _edl_status;
}

sgx_status_t ecall_wide(sgx_enclave_id_t eid, size_t* retval, const wchar_t* s, size_t s_len)
{
	sgx_status_t _edl_status;
	ms_ecall_wide_t _edl_ms;
	_edl_ms.ms_s = s;
	_edl_ms.ms_s_len_ = s ? (wcslen(s) + 1) * sizeof(wchar_t) : 0;
	_edl_ms.ms_s_len = s_len;
	_edl_status = sgx_ecall(eid, 6, &ocall_table_all, &_edl_ms);
	if (_edl_status == SGX_SUCCESS && retval)
		*retval = _edl_ms.ms_retval;
	return _edl_status;
}

sgx_status_t ecall_arrays(sgx_enclave_id_t eid, int a[4], int b[4], int c[2][3], int d[4])
{
	sgx_status_t _edl_status;
	ms_ecall_arrays_t _edl_ms;
	_edl_ms.ms_a = (int*)a;
	_edl_ms.ms_b = (int*)b;
	_edl_ms.ms_c = (int*)c;
	_edl_ms.ms_d = (int*)d;
	_edl_status = sgx_ecall(eid, 7, &ocall_table_all, &_edl_ms);
	return _edl_status;
}

sgx_status_t ecall_foreign(sgx_enclave_id_t eid, int* retval, ro_buffer_t b, size_t len, array_t a, buffer_t u)
{
	sgx_status_t _edl_status;
	ms_ecall_foreign_t _edl_ms;
	_edl_ms.ms_b = b;
	_edl_ms.ms_len = len;
	_edl_ms.ms_a = (array_t*)a;
	_edl_ms.ms_u = u;
	_edl_status = sgx_ecall(eid, 8, &ocall_table_all, &_edl_ms);
	if (_edl_status == SGX_SUCCESS && retval)
		*retval = _edl_ms.ms_retval;
	return _edl_status;
}

sgx_status_t ecall_both(sgx_enclave_id_t eid, void* p, unsigned int size, int count)
{
	sgx_status_t _edl_status;
	ms_ecall_both_t _edl_ms;
	_edl_ms.ms_p = p;
	_edl_ms.ms_size = size;
	_edl_ms.ms_count = count;
	_edl_status = sgx_ecall(eid, 9, &ocall_table_all, &_edl_ms);
	return _edl_status;
}

sgx_status_t ecall_raw(sgx_enclave_id_t eid, int* retval, void* p, const char** names)
{
	sgx_status_t _edl_status;
	ms_ecall_raw_t _edl_ms;
	_edl_ms.ms_p = p;
	_edl_ms.ms_names = names;
	_edl_status = sgx_ecall(eid, 10, &ocall_table_all, &_edl_ms);
	if (_edl_status == SGX_SUCCESS && retval)
		*retval = _edl_ms.ms_retval;
	return _edl_status;
}

sgx_status_t ecall_deep(sgx_enclave_id_t eid, int* retval, struct deep* d, size_t n)
{
	sgx_status_t _edl_status;
	ms_ecall_deep_t _edl_ms;
	_edl_ms.ms_d = d;
	_edl_ms.ms_n = n;
	_edl_status = sgx_ecall(eid, 11, &ocall_table_all, &_edl_ms);
	if (_edl_status == SGX_SUCCESS && retval)
		*retval = _edl_ms.ms_retval;
	return _edl_status;
}

sgx_status_t ecall_ocalls(sgx_enclave_id_t eid, int* retval, int what)
{
	sgx_status_t _edl_status;
	ms_ecall_ocalls_t _edl_ms;
	_edl_ms.ms_what = what;
	_edl_status = sgx_ecall(eid, 12, &ocall_table_all, &_edl_ms);
	if (_edl_status == SGX_SUCCESS && retval)
		*retval = _edl_ms.ms_retval;
	return _edl_status;
}

sgx_status_t ecall_threads(sgx_enclave_id_t eid, int* retval, int x)
{
	sgx_status_t _edl_status;
	ms_ecall_threads_t _edl_ms;
	_edl_ms.ms_x = x;
	_edl_status = sgx_ecall_switchless(eid, 13, &ocall_table_all, &_edl_ms);
	if (_edl_status == SGX_SUCCESS && retval)
		*retval = _edl_ms.ms_retval;
	return _edl_status;
}

sgx_status_t ecall_private(sgx_enclave_id_t eid, int* retval, int x)
{
	sgx_status_t _edl_status;
	ms_ecall_private_t _edl_ms;
	_edl_ms.ms_x = x;
	_edl_status = sgx_ecall(eid, 14, &ocall_table_all, &_edl_ms);
	if (_edl_status == SGX_SUCCESS && retval)
		*retval = _edl_ms.ms_retval;
	return _edl_status;
}

sgx_status_t ecall_list(sgx_enclave_id_t eid, size_t* retval, const void** list, size_t n)
{
	sgx_status_t _edl_status;
	ms_ecall_list_t _edl_ms;
	_edl_ms.ms_list = list;
	_edl_ms.ms_n = n;
	_edl_status = sgx_ecall(eid, 15, &ocall_table_all, &_edl_ms);
	if (_edl_status == SGX_SUCCESS && retval)
		*retval = _edl_ms.ms_retval;
	return _edl_status;
}

sgx_status_t imported_ecall(sgx_enclave_id_t eid, int* retval, int* status, int ms)
{
	sgx_status_t _edl_status;
	ms_imported_ecall_t _edl_ms;
	_edl_ms.ms_status = status;
	_edl_ms.ms_ms = ms;
	_edl_status = sgx_ecall(eid, 16, &ocall_table_all, &_edl_ms);
	if (_edl_status == SGX_SUCCESS && retval)
		*retval = _edl_ms.ms_retval;
	return _edl_status;
}

