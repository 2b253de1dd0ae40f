/* SPDX-License-Identifier: Apache-2.0 */
/* What the signer fills in (g_global_data), and what each thread has at FS and GS.
 * The layouts are those of Intel's SDK 3.x (common/inc/internal/global_data.h and
 * thread_data.h), so that signer and debuggers fit both; entry.S knows offsets. */
#ifndef HOLDFAST_TRTS_THREAD_H
#define HOLDFAST_TRTS_THREAD_H

#include <stddef.h>
#include <stdint.h>

struct thread {
	uint64_t self, last_sp, stack_base, stack_limit, first_ssa_gpr, stack_guard;
	uint64_t flags, xsave_size, last_error, aex_list, aex_flag, first_ssa_xsave;
	uint64_t next, tls, tls_array, exceptions;
	/* Ours, where Intel's has room for its C++ library: */
	uint64_t return_to;   /* where EEXIT goes */
	uint64_t depth;       /* OCALLs that are out */
	int64_t ocall;        /* number of the latest of them */
	uint64_t usp;         /* the application's stack, from where sgx_ocalloc takes */
	uint64_t usp_at_call; /* before that */
	uint64_t event;       /* of this thread, for waiting outside */
	uint64_t stack_commit;
	uint32_t entropy[2];
};
_Static_assert(sizeof(struct thread) == 192 && offsetof(struct thread, stack_guard) == 40 && offsetof(struct thread, return_to) == 128 && offsetof(struct thread, usp) == 152, "thread_data_t");

struct global {
	uint64_t sdk_version, enclave_size, heap_offset, heap_size, reserved_offset, reserved_size, reserved_executable, thread_policy, tcs_max, tcs_num;
	struct thread thread;
	uint8_t tcs[72];
	uint32_t entries, zero;
	uint8_t layout[43][32];
	uint64_t image_address, elrange_start, elrange_size, edmm_overhead;
	uint32_t fips, zero2;
};
_Static_assert(sizeof(struct global) == 1768, "global_data_t");

extern const volatile struct global g_global_data;

/* The thread that runs. */
static inline struct thread *self(void)
{
	struct thread *t;
	__asm__("mov %%gs:0, %0" : "=r"(t));
	return t;
}

/* An SSA frame's registers. */
struct gpr {
	uint64_t rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8, r9, r10, r11, r12, r13, r14, r15, rflags, rip, ursp, urbp;
	uint32_t exit_info;
	uint8_t reserved[3], aex_notify;
	uint64_t fsbase, gsbase;
};

extern const char trts_base[] __asm__("__ehdr_start") __attribute__((visibility("hidden")));

uint32_t trts_ocall(int64_t index, void *ms);
_Noreturn void trts_crash(void);
void trts_heap_init(void *at, size_t size);

static inline void fence(void) { __asm__ volatile("lfence" ::: "memory"); }

#endif
