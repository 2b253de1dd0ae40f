/* SPDX-License-Identifier: Apache-2.0 */
/* Words that stand before functions in SGX headers; nothing on Linux. */
#ifndef HOLDFAST_SGX_DEFS_H
#define HOLDFAST_SGX_DEFS_H

#define SGXAPI
#define SGX_CDECL
#define SGX_STDCALL
#define SGX_FASTCALL
#define SGX_DLLIMPORT
#define SGX_NOCONVENTION
#define SGX_UBRIDGE(convention, name, params...) convention name params
#define SGX_DEPRECATED __attribute__((deprecated))

#endif
