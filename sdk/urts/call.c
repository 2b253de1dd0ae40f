/* SPDX-License-Identifier: Apache-2.0 */
/* ECALLs: the enclave's code runs in the monitor's process for it; this thread
 * waits, serves OCALLs on its own stack, and answers what memory is asked for. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

#define STACK (8UL << 20) /* room for what enclaves hand over in OCALLs */

/* A thread: its connections and its untrusted stack. */
struct thread {
	struct link *links;
	void *stack;
	struct enclave *serving;
};

static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void close_link(struct link *l) /* under the table's lock */
{
	for (struct link **at = &l->e->links; *at != NULL; at = &(*at)->in_enclave)
		if (*at == l) {
			*at = l->in_enclave;
			break;
		}
	if (l->fd >= 0)
		close(l->fd);
	enclave_drop_locked(l->e);
	free(l);
}

static void thread_ends(void *p)
{
	struct thread *t = p;
	enclave_lock();
	while (t->links != NULL) {
		struct link *l = t->links;
		t->links = l->in_thread;
		close_link(l);
	}
	enclave_unlock();
	if (t->stack != NULL)
		memory_free_stack(t->stack, STACK);
	free(t);
}

static void make_key(void) { pthread_key_create(&key, thread_ends); }

static struct thread *self(void)
{
	pthread_once(&once, make_key);
	struct thread *t = pthread_getspecific(key);
	if (t == NULL && (t = calloc(1, sizeof *t)) != NULL && pthread_setspecific(key, t) != 0) {
		free(t);
		return NULL;
	}
	return t;
}

/* Only the thread that forked is in the child. Its connections and stack are the
 * parent's. */
void call_after_fork(void)
{
	pthread_once(&once, make_key);
	struct thread *t = pthread_getspecific(key);
	if (t == NULL)
		return;
	for (struct link *l = t->links; l != NULL; l = l->in_thread) {
		if (l->fd >= 0)
			close(l->fd);
		l->fd = -1;
	}
	t->links = NULL;
	t->stack = NULL;
}

/* attach opens a connection for an enclave. */
static int attach(struct enclave *e)
{
	struct message m;
	int error, fd = wire_connect(&error);
	if (fd < 0)
		return -1;
	if (wire_send(fd, MSG_ATTACH, e->key, sizeof e->key, NULL, 0) < 0 || wire_receive(fd, &m) < 0 || m.kind != MSG_LOADED) {
		close(fd);
		return -1;
	}
	return fd;
}

static struct link *link_to(struct thread *t, struct enclave *e)
{
	struct link **at = &t->links;
	enclave_lock();
	while (*at != NULL && (*at)->e != e) { /* clean up behind destroyed ones on the way */
		struct link *l = *at;
		if (l->e->dead && l->depth == 0) {
			*at = l->in_thread;
			close_link(l);
		} else {
			at = &l->in_thread;
		}
	}
	struct link *l = *at;
	bool dead = e->dead;
	enclave_unlock();
	if (dead)
		return NULL;
	if (l != NULL)
		return l->fd >= 0 ? l : NULL;
	int fd = attach(e);
	if (fd < 0)
		return NULL;
	if ((l = calloc(1, sizeof *l)) == NULL) {
		close(fd);
		return NULL;
	}
	l->e = e;
	l->fd = fd;
	enclave_lock();
	e->refs++;
	l->in_enclave = e->links;
	e->links = l;
	l->in_thread = t->links;
	t->links = l;
	if (e->dead) /* destroyed meanwhile: not seen by it */
		l->fd = -1;
	enclave_unlock();
	if (l->fd < 0) {
		close(fd);
		return NULL;
	}
	return l;
}

static sgx_status_t ended(const struct message *m)
{
	if (m->size < 8)
		return SGX_ERROR_UNEXPECTED;
	switch (get32(m->payload)) {
	case OUTCOME_DONE:
		return SGX_SUCCESS;
	case OUTCOME_STATUS:
		return get32(m->payload + 4);
	case OUTCOME_CRASHED:
		return SGX_ERROR_ENCLAVE_CRASHED;
	case OUTCOME_GONE:
		return SGX_ERROR_ENCLAVE_LOST;
	}
	log_error("the ECALL failed: %.*s", (int)(m->size - 8), (const char *)m->payload + 8);
	return SGX_ERROR_UNEXPECTED;
}

static sgx_status_t ocall(struct enclave *e, const sgx_ocall_table_t *table, const struct message *m)
{
	if (m->size < 16)
		return SGX_ERROR_UNEXPECTED;
	uint64_t index = get64(m->payload);
	if (table == NULL || index >= table->count)
		return SGX_ERROR_INVALID_FUNCTION;
	switchless_fallback(e);
	struct thread *t = self();
	struct enclave *before = t->serving;
	t->serving = e;
	sgx_status_t s = table->ocall[index]((void *)get64(m->payload + 8));
	t->serving = before;
	return s;
}

struct enclave *call_current(void)
{
	struct thread *t = self();
	return t == NULL ? NULL : t->serving;
}

/* serve answers the monitor until the ECALL has ended. */
static sgx_status_t serve(struct link *l, const sgx_ocall_table_t *table)
{
	struct message m;
	uint8_t b[28];
	for (;;) {
		if (wire_receive(l->fd, &m) < 0)
			return SGX_ERROR_ENCLAVE_LOST;
		switch (m.kind) {
		case MSG_DONE:
			return ended(&m);
		case MSG_OCALL:
			put32(b, ocall(l->e, table, &m));
			memory_validate();
			if (wire_send(l->fd, MSG_ORET, b, 4, NULL, 0) < 0)
				return SGX_ERROR_ENCLAVE_LOST;
			break;
		case MSG_FAULT: {
			struct region r = {0};
			if (m.size < 8 || !memory_resolve(get64(m.payload), &r))
				memset(&r, 0, sizeof r);
			put64(b, r.addr);
			put64(b + 8, r.size);
			put64(b + 16, r.offset);
			put32(b + 24, r.write);
			if (wire_send(l->fd, MSG_GRANT, b, 28, NULL, 0) < 0)
				return SGX_ERROR_ENCLAVE_LOST;
			break;
		}
		case MSG_ERROR:
			log_error("the monitor refused the ECALL: %.*s", (int)m.size, (const char *)m.payload);
			return SGX_ERROR_UNEXPECTED;
		default:
			log_error("the monitor sent %#x during an ECALL; are library and monitor of one version?", m.kind);
			return SGX_ERROR_UNEXPECTED;
		}
	}
}

sgx_status_t call_enclave(struct enclave *e, int index, const sgx_ocall_table_t *table, void *ms)
{
	struct thread *t = self();
	if (t == NULL)
		return SGX_ERROR_OUT_OF_MEMORY;
	if (t->stack == NULL && (t->stack = memory_stack(STACK)) == NULL)
		return SGX_ERROR_OUT_OF_MEMORY;
	struct link *l = link_to(t, e);
	if (l == NULL)
		return SGX_ERROR_ENCLAVE_LOST;
	memory_validate();
	uint8_t b[32];
	put64(b, (uint64_t)(int64_t)index);
	put64(b + 8, (uint64_t)ms);
	put64(b + 16, (uint64_t)t->stack);
	put64(b + 24, STACK);
	enclave_lock();
	l->depth++;
	enclave_unlock();
	sgx_status_t s = SGX_ERROR_ENCLAVE_LOST;
	if (wire_send(l->fd, MSG_CALL, b, sizeof b, NULL, 0) == 0)
		s = serve(l, table);
	enclave_lock();
	l->depth--;
	enclave_unlock();
	if (s != SGX_SUCCESS)
		log_info("ECALL %d ended with status %#x", index, s);
	return s;
}

static sgx_status_t ecall(sgx_enclave_id_t id, int index, const void *table, void *ms, bool switchless)
{
	struct enclave *e = enclave_get(id);
	if (e == NULL)
		return SGX_ERROR_INVALID_ENCLAVE_ID;
	sgx_status_t s = SGX_ERROR_INVALID_FUNCTION;
	if (index >= 0) {
		if (table != NULL)
			__atomic_store_n(&e->table, table, __ATOMIC_RELAXED);
		switchless_first(e, table);
		if (!switchless || !switchless_call(e, index, ms, &s))
			s = call_enclave(e, index, table, ms);
	}
	enclave_put(e);
	return s;
}

API sgx_status_t sgx_ecall(sgx_enclave_id_t id, int index, const void *table, void *ms);
API sgx_status_t sgx_ecall(sgx_enclave_id_t id, int index, const void *table, void *ms)
{
	return ecall(id, index, table, ms, false);
}

API sgx_status_t sgx_ecall_switchless(sgx_enclave_id_t id, int index, const void *table, void *ms);
API sgx_status_t sgx_ecall_switchless(sgx_enclave_id_t id, int index, const void *table, void *ms)
{
	return ecall(id, index, table, ms, true);
}
