/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the library share. wire.c speaks with the monitor, enclave.c
 * keeps enclaves, call.c makes ECALLs, memory.c and world.c let an enclave reach
 * the application's memory, event.c and cpuid.c serve OCALLs of the SDK. */
#ifndef HOLDFAST_INTERNAL_H
#define HOLDFAST_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "sgx.h"

#define API __attribute__((visibility("default")))
#define PAGE 4096UL

/* log.c: one line to standard error, at the level that HOLDFAST_ENCLAVE_LOG
 * asks for: "error" (default), "info" (conversions of memory) or "none". */
void log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* wire.c: messages of the monitor (enclave/daemon/wire.go). */
enum {
	MSG_LOAD = 1, MSG_ATTACH = 2, MSG_ORET = 4, MSG_GRANT = 11, MSG_REVOKE = 12, MSG_SELF = 13, MSG_CALL = 14,
	MSG_LOADED = 0x101, MSG_DONE = 0x102, MSG_OCALL = 0x103, MSG_RESULT = 0x104, MSG_FAULT = 0x105, MSG_ERROR = 0x1ff,
};
enum { FLAG_DEBUG = 1, FLAG_DYNAMIC = 2, FLAG_APP = 8 };
enum { OUTCOME_DONE = 0, OUTCOME_STATUS = 1, OUTCOME_CRASHED = 2, OUTCOME_GONE = 3 };
#define MAX_PAYLOAD 1024

struct message {
	uint16_t kind;
	uint32_t size;
	uint8_t payload[MAX_PAYLOAD]; /* a longer text is cut */
};

/* Each returns 0, or -1 when the connection is of no more use. Descriptors that
 * come are closed: the application needs none of them. */
int wire_connect(int *error);
int wire_send(int fd, uint16_t kind, const void *payload, uint32_t size, const int *files, int count);
int wire_receive(int fd, struct message *m);
uint64_t get64(const uint8_t *p);
uint32_t get32(const uint8_t *p);
void put64(uint8_t *p, uint64_t v);
void put32(uint8_t *p, uint32_t v);

/* enclave.c */
struct link;

struct enclave {
	sgx_enclave_id_t id;
	int refs;          /* table, links, callers */
	bool dead;         /* destroyed, or lost by fork */
	int control;       /* connection that loaded it; closing it ends it */
	pthread_mutex_t control_lock;
	uint8_t key[24];   /* id and token for MSG_ATTACH */
	uint8_t self[512]; /* TARGETINFO */
	uint64_t base, size;
	void *switchless;
	bool started;      /* the first ECALL was made */
	const void *table; /* OCALL table of the last ECALL that had one */
	struct link *links;
	struct enclave *next;
};

struct enclave *enclave_get(sgx_enclave_id_t id); /* with a reference */
void enclave_put(struct enclave *e);
void enclave_lock(void);
void enclave_unlock(void);
struct enclave *enclave_first(void); /* under the lock */
void enclave_after_fork(void);
void enclave_drop_locked(struct enclave *e);

/* call.c: a thread's connection to one enclave. */
struct link {
	struct enclave *e;
	int fd;
	int depth; /* ECALLs that it carries, nested */
	struct link *in_thread, *in_enclave;
};
sgx_status_t call_enclave(struct enclave *e, int index, const sgx_ocall_table_t *table, void *ms);
void call_after_fork(void);
struct enclave *call_current(void); /* whose OCALL this thread serves, or NULL */

/* memory.c: what of the application an enclave may reach. */
struct region {
	uint64_t addr, size, offset;
	uint32_t write;
};
int memory_file(void);                                /* memfd, or -1 */
bool memory_resolve(uint64_t addr, struct region *r); /* false: refused */
void memory_validate(void);                           /* takes away what is no longer there */
void *memory_stack(size_t size);                      /* an untrusted stack, NULL without memory */
void memory_free_stack(void *stack, size_t size);
bool memory_reserve(uint64_t base, uint64_t size); /* keeps ELRANGE free of other things */

/* maps.c: the mappings of this process. */
struct mapping {
	uint64_t start, end, offset, inode;
	uint32_t major, minor;
	bool read, write, exec, shared, stack, special;
};
/* Calls f for each mapping in order until it returns false. */
int maps_walk(bool (*f)(const struct mapping *m, void *arg), void *arg);

/* world.c: work done while every other thread stands still. It runs in a helper
 * that shares the address space and must use raw system calls only. */
struct work {
	/* Share: the pages move into the file and are mapped from there. Else they
	 * move back into private memory. */
	bool share;
	uint64_t addr, size;   /* range to replace */
	uint64_t from, length; /* part of it that has content now */
	uint64_t offset;       /* of addr in the file */
	int prot, file;
	int pagemap;           /* skip pages that were never touched; -1: copy all */
};
int world_run(struct work *w, int count); /* 0, or -errno */

/* event.c */
sgx_status_t pthread_wakeup_ocall(unsigned long long waiter);

/* switchless.c: the SDK's switchless library is linked into the application. */
sgx_status_t switchless_start(struct enclave *e, const void *config);
void switchless_stop(struct enclave *e);
void switchless_first(struct enclave *e, const void *table);
void switchless_fallback(struct enclave *e);
bool switchless_call(struct enclave *e, int index, void *ms, sgx_status_t *status);

#endif
