/* SPDX-License-Identifier: Apache-2.0 */
/* What the test applications are linked against, as built applications are against
 * Intel's library: it has the names and does nothing. */
#include <stdlib.h>
#define NAME(f) void f(void); void f(void) { abort(); }
NAME(sgx_create_enclave)
NAME(sgx_create_enclave_ex)
NAME(sgx_create_enclave_from_buffer_ex)
NAME(sgx_destroy_enclave)
NAME(sgx_ecall)
NAME(sgx_ecall_switchless)
NAME(sgx_get_target_info)
NAME(sgx_get_metadata)
NAME(sgx_oc_cpuidex)
NAME(sgx_set_switchless_itf)
NAME(sgx_thread_wait_untrusted_event_ocall)
NAME(sgx_thread_set_untrusted_event_ocall)
