/* SPDX-License-Identifier: Apache-2.0 */
/* ECALLs, from entry.S. Compiled without stack protector: the first call of a
 * thread makes its canary. */
#include <elf.h>
#include <string.h>

#include "sgx_edger8r.h"
#include "sgx_trts.h"
#include "thread.h"

/* Filled by the signer. The version is that of the SDK whose layout this is. */
__attribute__((section(".data"), visibility("default"))) const volatile struct global g_global_data = {.sdk_version = 0x300000000};

extern const struct {
	size_t n;
	struct { sgx_status_t (*at)(void *); uint8_t private, threads; } e[];
} g_ecall_table __attribute__((visibility("hidden")));
extern const struct {
	size_t n;
	uint8_t allowed[];
} g_dyn_entry_table __attribute__((visibility("hidden")));

enum { NEW, BUSY, READY, CRASHED };
static volatile uint32_t state;

int sgx_is_enclave_crashed(void) { return state == CRASHED; }

_Noreturn void trts_crash(void)
{
	state = CRASHED;
	for (;;)
		__asm__ volatile("ud2");
}
_Noreturn void abort(void) { trts_crash(); }
_Noreturn void __stack_chk_fail(void) { trts_crash(); }

int sgx_is_within_enclave(const void *p, size_t n)
{
	uintptr_t a = (uintptr_t)p, base = (uintptr_t)trts_base, end;
	return !__builtin_add_overflow(a, n, &end) && a >= base && end <= base + g_global_data.enclave_size && a < base + g_global_data.enclave_size;
}

int sgx_is_outside_enclave(const void *p, size_t n)
{
	uintptr_t a = (uintptr_t)p, base = (uintptr_t)trts_base, end;
	return !__builtin_add_overflow(a, n, &end) && (end <= base || a >= base + g_global_data.enclave_size) && (a < base || a >= base + g_global_data.enclave_size);
}

static const Elf64_Phdr *header(uint32_t type)
{
	const Elf64_Ehdr *e = (const Elf64_Ehdr *)trts_base;
	const Elf64_Phdr *p = (const Elf64_Phdr *)(trts_base + e->e_phoff);
	for (int i = 0; i < e->e_phnum; i++)
		if (p[i].p_type == type)
			return &p[i];
	return NULL;
}

static uint64_t dynamic(int64_t tag)
{
	const Elf64_Phdr *p = header(PT_DYNAMIC);
	if (p == NULL)
		return 0;
	for (const Elf64_Dyn *d = (const Elf64_Dyn *)(trts_base + p->p_vaddr); d->d_tag != DT_NULL; d++)
		if (d->d_tag == tag)
			return d->d_un.d_val;
	return 0;
}

static void relocate(uint64_t at, uint64_t size)
{
	const Elf64_Rela *r = (const Elf64_Rela *)(trts_base + at);
	const Elf64_Sym *syms = (const Elf64_Sym *)(trts_base + dynamic(DT_SYMTAB));
	const Elf64_Phdr *tls = header(PT_TLS);
	uint64_t base = (uint64_t)trts_base;
	for (size_t i = 0; i < size / sizeof *r; i++) {
		uint64_t *to = (uint64_t *)(base + r[i].r_offset);
		const Elf64_Sym *s = &syms[ELF64_R_SYM(r[i].r_info)];
		uint64_t value = s->st_shndx == SHN_UNDEF ? 0 : base + s->st_value; /* weak ones are 0 */
		switch (ELF64_R_TYPE(r[i].r_info)) {
		case R_X86_64_NONE:
			break;
		case R_X86_64_RELATIVE:
			*to = base + (uint64_t)r[i].r_addend;
			break;
		case R_X86_64_64:
			*to = value + (uint64_t)r[i].r_addend;
			break;
		case R_X86_64_GLOB_DAT:
		case R_X86_64_JUMP_SLOT:
			*to = value;
			break;
		case R_X86_64_DTPMOD64:
			*to = 1;
			break;
		case R_X86_64_DTPOFF64:
			*to = s->st_value + (uint64_t)r[i].r_addend;
			break;
		case R_X86_64_TPOFF64:
			if (tls != NULL)
				*to = s->st_value + (uint64_t)r[i].r_addend - ((tls->p_memsz + tls->p_align - 1) & -tls->p_align);
			break;
		default:
			trts_crash();
		}
	}
}

static int random_word(uint64_t *to)
{
	unsigned char ok;
	for (int i = 0; i < 16; i++) {
		__asm__ volatile("rdrand %0; setc %1" : "=r"(*to), "=qm"(ok)::"cc");
		if (ok)
			return 1;
	}
	return 0;
}

sgx_status_t sgx_read_rand(unsigned char *to, size_t n)
{
	if (to == NULL || n == 0 || (!sgx_is_within_enclave(to, n) && !sgx_is_outside_enclave(to, n)))
		return SGX_ERROR_INVALID_PARAMETER;
	while (n > 0) {
		uint64_t w;
		size_t k = n < sizeof w ? n : sizeof w;
		if (!random_word(&w))
			return SGX_ERROR_UNEXPECTED;
		memcpy(to, &w, k);
		to += k;
		n -= k;
	}
	return SGX_SUCCESS;
}

/* set_up gives a thread its data, canary and thread-local variables. */
static struct thread *set_up(uint64_t tcs)
{
	const struct thread *m = (const struct thread *)&g_global_data.thread;
	struct thread *t = (struct thread *)(tcs + m->self);
	if (t->self != 0)
		return t;
	const Elf64_Phdr *tls = header(PT_TLS);
	uint64_t guard;
	if (!random_word(&guard))
		return NULL;
	if (tls != NULL) {
		memcpy((void *)(tcs + m->tls), trts_base + tls->p_vaddr, tls->p_filesz);
		memset((void *)(tcs + m->tls + tls->p_filesz), 0, tls->p_memsz - tls->p_filesz);
	}
	t->last_sp = tcs + m->last_sp;
	t->stack_base = tcs + m->stack_base;
	t->stack_limit = tcs + m->stack_limit;
	t->first_ssa_gpr = tcs + m->first_ssa_gpr;
	t->first_ssa_xsave = tcs + m->first_ssa_xsave;
	t->stack_guard = guard & ~(uint64_t)0xff; /* a string cannot contain it */
	t->tls = tcs + m->tls;
	t->tls_array = tcs + m->tls_array;
	t->self = (uint64_t)t;
	return t;
}

static sgx_status_t initialize(uint64_t tcs)
{
	if (!__sync_bool_compare_and_swap(&state, NEW, BUSY))
		return SGX_ERROR_INVALID_STATE;
	relocate(dynamic(DT_RELA), dynamic(DT_RELASZ));
	relocate(dynamic(DT_JMPREL), dynamic(DT_PLTRELSZ));
	trts_heap_init((void *)(trts_base + g_global_data.heap_offset), g_global_data.heap_size);
	if (set_up(tcs) == NULL)
		return SGX_ERROR_UNEXPECTED;
	void (**init)(void) = (void (**)(void))(trts_base + dynamic(DT_INIT_ARRAY));
	for (size_t i = 0; i < dynamic(DT_INIT_ARRAYSZ) / sizeof *init; i++)
		init[i]();
	state = READY;
	return SGX_SUCCESS;
}

static sgx_status_t ecall(struct thread *t, uint64_t index, void *ms)
{
	if (index >= g_ecall_table.n)
		return SGX_ERROR_INVALID_FUNCTION;
	fence();
	if (t->depth == 0) {
		if (g_ecall_table.e[index].private)
			return SGX_ERROR_ECALL_NOT_ALLOWED;
	} else if (t->ocall < 0 || (uint64_t)t->ocall >= g_dyn_entry_table.n || !g_dyn_entry_table.allowed[(uint64_t)t->ocall * g_ecall_table.n + index]) {
		return SGX_ERROR_ECALL_NOT_ALLOWED;
	}
	fence();
	return g_ecall_table.e[index].at(ms);
}

/* trts_enter is called on the thread's own stack. */
__attribute__((visibility("hidden"))) sgx_status_t trts_enter(int64_t command, void *ms, uint64_t tcs, uint64_t return_to);
sgx_status_t trts_enter(int64_t command, void *ms, uint64_t tcs, uint64_t return_to)
{
	if (command == -1)
		return initialize(tcs);
	if (state == CRASHED)
		return SGX_ERROR_ENCLAVE_CRASHED;
	if (state != READY)
		return SGX_ERROR_INVALID_STATE;
	if (command < 0)
		return SGX_ERROR_INVALID_FUNCTION;
	struct thread *t = set_up(tcs);
	if (t == NULL)
		return SGX_ERROR_UNEXPECTED;
	struct gpr *g = (struct gpr *)t->first_ssa_gpr;
	uint64_t sp = g->ursp;
	if (!sgx_is_outside_enclave((void *)(sp - 1), 1))
		return SGX_ERROR_INVALID_PARAMETER;
	/* What an ECALL within an OCALL must not lose. */
	uint64_t before[] = {t->return_to, t->usp, t->usp_at_call, t->last_sp, t->depth, (uint64_t)t->ocall};
	t->return_to = return_to;
	t->usp = t->usp_at_call = sp;
	sgx_status_t s = ecall(t, (uint64_t)command, ms);
	t->return_to = before[0];
	t->usp = before[1];
	t->usp_at_call = before[2];
	t->last_sp = before[3];
	t->depth = before[4];
	t->ocall = (int64_t)before[5];
	g->ursp = sp;
	return s;
}

sgx_status_t sgx_ocall(const unsigned int index, void *ms)
{
	struct thread *t = self();
	if (index >= g_dyn_entry_table.n || t->exceptions != 0)
		return SGX_ERROR_OCALL_NOT_ALLOWED;
	if (ms != NULL && !sgx_is_outside_enclave(ms, 1))
		return SGX_ERROR_INVALID_PARAMETER;
	int64_t before = t->ocall;
	t->ocall = (int64_t)index;
	sgx_status_t s = (sgx_status_t)trts_ocall((int64_t)index, ms);
	t->ocall = before;
	return s;
}
sgx_status_t sgx_ocall_switchless(const unsigned int index, void *ms) { return sgx_ocall(index, ms); }

void *sgx_ocalloc(size_t n)
{
	struct thread *t = self();
	if (n > t->usp || (t->usp - n) < 4096)
		return NULL;
	uint64_t at = (t->usp - n) & ~(uint64_t)15;
	if (!sgx_is_outside_enclave((void *)at, t->usp - at))
		return NULL;
	t->usp = at;
	((struct gpr *)t->first_ssa_gpr)->ursp = at;
	return (void *)at;
}

void sgx_ocfree(void)
{
	struct thread *t = self();
	t->usp = t->usp_at_call;
	((struct gpr *)t->first_ssa_gpr)->ursp = t->usp;
}
