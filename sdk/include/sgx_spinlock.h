/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOLDFAST_SGX_SPINLOCK_H
#define HOLDFAST_SGX_SPINLOCK_H

#include <stdint.h>

#include "sgx_defs.h"

typedef volatile uint32_t sgx_spinlock_t;
#define SGX_SPINLOCK_INITIALIZER 0

#ifdef __cplusplus
extern "C" {
#endif

/* Both return 0. */
uint32_t SGXAPI sgx_spin_lock(sgx_spinlock_t *lock);
uint32_t SGXAPI sgx_spin_unlock(sgx_spinlock_t *lock);

#ifdef __cplusplus
}
#endif

#endif
