/* Made by holdfast enclave edger8r. Change the EDL file, not this one. */
#ifndef ALL_T_H__
#define ALL_T_H__

#include <stdint.h>
#include <wchar.h>
#include <stddef.h>
#include "sgx_edger8r.h"
#include "user_types.h"
#include "trusted_only.h"

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

void ecall_nothing(void);
int ecall_values(char c, unsigned char uc, short s, unsigned short us, long l, unsigned long ul, long long ll, unsigned long long ull, int8_t i8, uint64_t u64, float f, double d, size_t z, wchar_t w);
long double ecall_composites(struct point p, union number u, enum colour c);
uint64_t ecall_sum(const uint8_t* data, size_t len);
void ecall_fill(uint32_t* to, size_t n, uint32_t value);
int ecall_reverse(char* s);
size_t ecall_wide(const wchar_t* s, size_t s_len);
void ecall_arrays(int a[4], int b[4], int c[2][3], int d[4]);
int ecall_foreign(ro_buffer_t b, size_t len, array_t a, buffer_t u);
void ecall_both(void* p, unsigned int size, int count);
int ecall_raw(void* p, const char** names);
int ecall_deep(struct deep* d, size_t n);
int ecall_ocalls(int what);
int ecall_threads(int x);
int ecall_private(int x);
size_t ecall_list(const void** list, size_t n);
int imported_ecall(int* status, int ms);

sgx_status_t SGX_CDECL ocall_nothing(void);
sgx_status_t SGX_CDECL ocall_print(int* retval, const char* s);
sgx_status_t SGX_CDECL ocall_nested(int* retval, int x);
sgx_status_t SGX_CDECL ocall_swap(uint32_t* v, size_t n, struct point* p);
sgx_status_t SGX_CDECL ocall_text(int* retval, char* s, const wchar_t* w);
sgx_status_t SGX_CDECL ocall_arrays(int a[4], int b[2][2], array_t c);
sgx_status_t SGX_CDECL ocall_raw(int* retval, void* p);
sgx_status_t SGX_CDECL ocall_deep(int* retval, struct deep* d, size_t n, int attack);
sgx_status_t SGX_CDECL ocall_list(size_t* retval, const void** list, size_t n);
sgx_status_t SGX_CDECL imported_ocall(int* _edl_retval, int retval, int eid);

#ifdef __cplusplus
}
#endif

#endif
