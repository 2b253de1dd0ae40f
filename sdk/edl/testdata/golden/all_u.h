/* Made by holdfast enclave edger8r. Change the EDL file, not this one. */
#ifndef ALL_U_H__
#define ALL_U_H__

#include <stdint.h>
#include <wchar.h>
#include <stddef.h>
#include "sgx_edger8r.h"
#include "user_types.h"
#include "untrusted_only.h"

#include <stdlib.h> /* for size_t */

#ifndef SGX_CAST
#define SGX_CAST(type, item) ((type)(item))
#endif

#ifdef __cplusplus
extern "C" {
#endif

#ifndef _struct_point
#define _struct_point
typedef struct point {
	int32_t x;
	int32_t y;
} point;
#endif

#ifndef _struct_deep
#define _struct_deep
typedef struct deep {
	size_t n;
	uint16_t* items;
	uint32_t len;
	void* bytes;
	uint32_t tag;
} deep;
#endif

#ifndef _union_number
#define _union_number
typedef union number {
	uint32_t whole;
	float part;
} number;
#endif

#ifndef _enum_colour
#define _enum_colour
typedef enum colour {
	RED,
	GREEN = 5,
	BLUE = GREEN,
} colour;
#endif

enum {
	ANONYMOUS = 7,
} ;

#ifndef OCALL_NOTHING_DEFINED__
#define OCALL_NOTHING_DEFINED__
void SGX_UBRIDGE(SGX_NOCONVENTION, ocall_nothing, (void));
#endif
#ifndef OCALL_PRINT_DEFINED__
#define OCALL_PRINT_DEFINED__
int SGX_UBRIDGE(SGX_NOCONVENTION, ocall_print, (const char* s));
#endif
#ifndef OCALL_NESTED_DEFINED__
#define OCALL_NESTED_DEFINED__
int SGX_UBRIDGE(SGX_CDECL, ocall_nested, (int x));
#endif
#ifndef OCALL_SWAP_DEFINED__
#define OCALL_SWAP_DEFINED__
void SGX_UBRIDGE(SGX_NOCONVENTION, ocall_swap, (uint32_t* v, size_t n, struct point* p));
#endif
#ifndef OCALL_TEXT_DEFINED__
#define OCALL_TEXT_DEFINED__
int SGX_UBRIDGE(SGX_NOCONVENTION, ocall_text, (char* s, const wchar_t* w));
#endif
#ifndef OCALL_ARRAYS_DEFINED__
#define OCALL_ARRAYS_DEFINED__
void SGX_UBRIDGE(SGX_CDECL, ocall_arrays, (int a[4], int b[2][2], array_t c));
#endif
#ifndef OCALL_RAW_DEFINED__
#define OCALL_RAW_DEFINED__
int SGX_UBRIDGE(SGX_NOCONVENTION, ocall_raw, (void* p));
#endif
#ifndef OCALL_DEEP_DEFINED__
#define OCALL_DEEP_DEFINED__
int SGX_UBRIDGE(SGX_NOCONVENTION, ocall_deep, (struct deep* d, size_t n, int attack));
#endif
#ifndef OCALL_LIST_DEFINED__
#define OCALL_LIST_DEFINED__
size_t SGX_UBRIDGE(SGX_NOCONVENTION, ocall_list, (const void** list, size_t n));
#endif
#ifndef IMPORTED_OCALL_DEFINED__
#define IMPORTED_OCALL_DEFINED__
int SGX_UBRIDGE(SGX_NOCONVENTION, imported_ocall, (int retval, int eid));
#endif

sgx_status_t ecall_nothing(sgx_enclave_id_t eid);
sgx_status_t ecall_values(sgx_enclave_id_t eid, int* retval, char c, unsigned char uc, short s, unsigned short us, long l, unsigned long ul, long long ll, unsigned long long ull, int8_t i8, uint64_t u64, float f, double d, size_t z, wchar_t w);
sgx_status_t ecall_composites(sgx_enclave_id_t eid, long double* retval, struct point p, union number u, enum colour c);
sgx_status_t ecall_sum(sgx_enclave_id_t eid, uint64_t* retval, const uint8_t* data, size_t len);
sgx_status_t ecall_fill(sgx_enclave_id_t eid, uint32_t* to, size_t n, uint32_t value);
sgx_status_t ecall_reverse(sgx_enclave_id_t eid, int* retval, char* s);
sgx_status_t ecall_wide(sgx_enclave_id_t eid, size_t* retval, const wchar_t* s, size_t s_len);
sgx_status_t ecall_arrays(sgx_enclave_id_t eid, int a[4], int b[4], int c[2][3], int d[4]);
sgx_status_t ecall_foreign(sgx_enclave_id_t eid, int* retval, ro_buffer_t b, size_t len, array_t a, buffer_t u);
sgx_status_t ecall_both(sgx_enclave_id_t eid, void* p, unsigned int size, int count);
sgx_status_t ecall_raw(sgx_enclave_id_t eid, int* retval, void* p, const char** names);
sgx_status_t ecall_deep(sgx_enclave_id_t eid, int* retval, struct deep* d, size_t n);
sgx_status_t ecall_ocalls(sgx_enclave_id_t eid, int* retval, int what);
sgx_status_t ecall_threads(sgx_enclave_id_t eid, int* retval, int x);
sgx_status_t ecall_private(sgx_enclave_id_t eid, int* retval, int x);
sgx_status_t ecall_list(sgx_enclave_id_t eid, size_t* retval, const void** list, size_t n);
sgx_status_t imported_ecall(sgx_enclave_id_t eid, int* retval, int* status, int ms);

#ifdef __cplusplus
}
#endif

#endif
