/* SPDX-License-Identifier: Apache-2.0 */
/* Enclaves: sgx_create_enclave and what belongs to it. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

#include "internal.h"

static pthread_mutex_t table = PTHREAD_MUTEX_INITIALIZER;
static struct enclave *first;
static sgx_enclave_id_t next_id = 2;

void enclave_lock(void) { pthread_mutex_lock(&table); }
void enclave_unlock(void) { pthread_mutex_unlock(&table); }
struct enclave *enclave_first(void) { return first; }

void enclave_drop_locked(struct enclave *e)
{
	if (--e->refs > 0)
		return;
	pthread_mutex_destroy(&e->control_lock);
	free(e);
}

void enclave_put(struct enclave *e)
{
	enclave_lock();
	enclave_drop_locked(e);
	enclave_unlock();
}

struct enclave *enclave_get(sgx_enclave_id_t id)
{
	enclave_lock();
	struct enclave *e = first;
	while (e != NULL && e->id != id)
		e = e->next;
	if (e != NULL)
		e->refs++;
	enclave_unlock();
	return e;
}

/* The child of fork has no enclaves: a call says SGX_ERROR_ENCLAVE_LOST. The
 * descriptors are copies, so that closing them ends nothing. */
void enclave_after_fork(void)
{
	pthread_mutex_init(&table, NULL);
	for (struct enclave *e = first; e != NULL; e = e->next) {
		pthread_mutex_init(&e->control_lock, NULL);
		if (!e->dead)
			close(e->control);
		e->dead = true;
		e->control = -1;
		e->links = NULL;
	}
}

/* status of an answer that is not what was asked for. */
static sgx_status_t refusal(const char *what, const struct message *m)
{
	if (m->kind == MSG_DONE && m->size >= 8) {
		log_error("%s: %.*s", what, (int)(m->size - 8), (const char *)m->payload + 8);
		sgx_status_t s = get32(m->payload + 4);
		return s != SGX_SUCCESS ? s : SGX_ERROR_UNEXPECTED;
	}
	if (m->kind == MSG_ERROR)
		log_error("%s: the monitor refused: %.*s", what, (int)m->size, (const char *)m->payload);
	else
		log_error("%s: the monitor answered %#x; are library and monitor of one version?", what, m->kind);
	return SGX_ERROR_UNEXPECTED;
}

static sgx_status_t load(struct enclave *e, int image, bool debug, const char *name)
{
	struct message m;
	int error, files[2] = {image, memory_file()};
	if (files[1] < 0)
		return SGX_ERROR_OUT_OF_MEMORY;
	e->control = wire_connect(&error);
	if (e->control < 0)
		return error == EACCES || error == EPERM ? SGX_ERROR_NO_PRIVILEGE : SGX_ERROR_NO_DEVICE;
	uint8_t b[8];
	put32(b, FLAG_DYNAMIC | FLAG_APP | (debug ? FLAG_DEBUG : 0));
	put32(b + 4, 0);
	if (wire_send(e->control, MSG_LOAD, b, sizeof b, files, 2) < 0 || wire_receive(e->control, &m) < 0) {
		log_error("%s: the monitor went away while it loaded the enclave", name);
		return SGX_ERROR_NO_DEVICE;
	}
	if (m.kind != MSG_LOADED || m.size < 24)
		return refusal(name, &m);
	memcpy(e->key, m.payload, sizeof e->key);
	if (wire_send(e->control, MSG_SELF, NULL, 0, NULL, 0) < 0 || wire_receive(e->control, &m) < 0)
		return SGX_ERROR_NO_DEVICE;
	if (m.kind != MSG_RESULT || m.size < 532)
		return refusal(name, &m);
	memcpy(e->self, m.payload, sizeof e->self);
	e->base = get64(m.payload + 512);
	e->size = get64(m.payload + 520);
	if (!memory_reserve(e->base, e->size)) {
		log_error("%s: the application has memory at %#lx, where enclaves lie", name, (unsigned long)e->base);
		return SGX_ERROR_MEMORY_MAP_CONFLICT;
	}
	return SGX_SUCCESS;
}

static sgx_status_t create(int image, const char *name, int debug, sgx_enclave_id_t *id, sgx_misc_attribute_t *attributes, uint32_t features, const void *const *p)
{
	struct enclave *e = calloc(1, sizeof *e);
	if (e == NULL)
		return SGX_ERROR_OUT_OF_MEMORY;
	e->control = -1;
	e->refs = 2; /* the table's and ours */
	pthread_mutex_init(&e->control_lock, NULL);
	sgx_status_t s = load(e, image, debug != 0, name);
	if (s != SGX_SUCCESS) {
		if (e->control >= 0)
			close(e->control);
		pthread_mutex_destroy(&e->control_lock);
		free(e);
		return s;
	}
	enclave_lock();
	e->id = next_id++;
	e->next = first;
	first = e;
	enclave_unlock();
	if (attributes != NULL) {
		memset(attributes, 0, sizeof *attributes);
		memcpy(&attributes->secs_attr, e->self + 32, 16);
		attributes->misc_select = get32(e->self + 52);
	}
	*id = e->id;
	if ((features & SGX_EX_SWITCHLESS) != 0)
		s = switchless_start(e, p == NULL ? NULL : p[1]);
	enclave_put(e);
	return s;
}

/* check looks at the arguments as Intel's library does. */
static sgx_status_t check(int debug, const sgx_enclave_id_t *id, uint32_t features, const void *const *p)
{
	if ((debug != 0 && debug != 1) || id == NULL || (features & ~(uint32_t)SGX_EX_ALL) != 0)
		return SGX_ERROR_INVALID_PARAMETER;
	for (int i = 0; p != NULL && i < SGX_EX_COUNT; i++)
		if (p[i] != NULL && (features >> i & 1) == 0)
			return SGX_ERROR_INVALID_PARAMETER;
	if ((features & SGX_EX_PCL) != 0 || (features & SGX_EX_KSS) != 0) {
		log_error("encrypted enclaves (PCL) and key separation (KSS) are not supported");
		return SGX_ERROR_FEATURE_NOT_SUPPORTED;
	}
	return SGX_SUCCESS;
}

/* The monitor takes images in memory only: a file system could make it wait. */
static int in_memory(const char *name)
{
	int file = open(name, O_RDONLY | O_CLOEXEC), fd = -1;
	if (file < 0)
		return -1;
	ssize_t n = 0;
	fd = memfd_create("enclave-image", MFD_CLOEXEC);
	while (fd >= 0 && ((n = sendfile(fd, file, NULL, 1 << 20)) > 0 || (n < 0 && errno == EINTR)))
		;
	int e = errno;
	if (fd >= 0 && n < 0) {
		close(fd);
		fd = -1;
	}
	close(file);
	errno = e;
	return fd;
}

API sgx_status_t sgx_create_enclave_ex(const char *name, int debug, sgx_launch_token_t *token, int *updated, sgx_enclave_id_t *id, sgx_misc_attribute_t *attributes, uint32_t features, const void *p[SGX_EX_COUNT]);
API sgx_status_t sgx_create_enclave_ex(const char *name, int debug, sgx_launch_token_t *token, int *updated, sgx_enclave_id_t *id, sgx_misc_attribute_t *attributes, uint32_t features, const void *p[SGX_EX_COUNT])
{
	(void)token; /* as with flexible launch control: nobody needs one */
	sgx_status_t s = check(debug, id, features, p);
	if (s != SGX_SUCCESS)
		return s;
	int fd = name == NULL ? -1 : in_memory(name);
	if (fd < 0) {
		log_error("enclave file %s: %s", name == NULL ? "(none)" : name, strerror(errno));
		return SGX_ERROR_ENCLAVE_FILE_ACCESS;
	}
	if (updated != NULL)
		*updated = 0;
	s = create(fd, name, debug, id, attributes, features, p);
	close(fd);
	return s;
}

API sgx_status_t sgx_create_enclave(const char *name, int debug, sgx_launch_token_t *token, int *updated, sgx_enclave_id_t *id, sgx_misc_attribute_t *attributes);
API sgx_status_t sgx_create_enclave(const char *name, int debug, sgx_launch_token_t *token, int *updated, sgx_enclave_id_t *id, sgx_misc_attribute_t *attributes)
{
	return sgx_create_enclave_ex(name, debug, token, updated, id, attributes, 0, NULL);
}

API sgx_status_t sgx_create_enclave_from_buffer_ex(uint8_t *buffer, uint64_t size, int debug, sgx_enclave_id_t *id, sgx_misc_attribute_t *attributes, uint32_t features, const void *p[SGX_EX_COUNT]);
API sgx_status_t sgx_create_enclave_from_buffer_ex(uint8_t *buffer, uint64_t size, int debug, sgx_enclave_id_t *id, sgx_misc_attribute_t *attributes, uint32_t features, const void *p[SGX_EX_COUNT])
{
	sgx_status_t s = check(debug, id, features, p);
	if (s != SGX_SUCCESS)
		return s;
	if (buffer == NULL || size == 0)
		return SGX_ERROR_INVALID_PARAMETER;
	int fd = memfd_create("enclave-image", MFD_CLOEXEC);
	if (fd < 0)
		return SGX_ERROR_OUT_OF_MEMORY;
	for (uint64_t at = 0; at < size;) {
		ssize_t n = write(fd, buffer + at, size - at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			close(fd);
			return SGX_ERROR_OUT_OF_MEMORY;
		}
		at += (uint64_t)n;
	}
	s = create(fd, "enclave in a buffer", debug, id, attributes, features, p);
	close(fd);
	return s;
}

API sgx_status_t sgx_create_encrypted_enclave(const char *name, int debug, sgx_launch_token_t *token, int *updated, sgx_enclave_id_t *id, sgx_misc_attribute_t *attributes, uint8_t *key);
API sgx_status_t sgx_create_encrypted_enclave(const char *name, int debug, sgx_launch_token_t *token, int *updated, sgx_enclave_id_t *id, sgx_misc_attribute_t *attributes, uint8_t *key)
{
	const void *p[SGX_EX_COUNT] = {key};
	return sgx_create_enclave_ex(name, debug, token, updated, id, attributes, SGX_EX_PCL, p);
}

API sgx_status_t sgx_destroy_enclave(sgx_enclave_id_t id);
API sgx_status_t sgx_destroy_enclave(sgx_enclave_id_t id)
{
	enclave_lock();
	struct enclave **at = &first;
	while (*at != NULL && (*at)->id != id)
		at = &(*at)->next;
	struct enclave *e = *at;
	if (e == NULL) {
		enclave_unlock();
		return SGX_ERROR_INVALID_ENCLAVE_ID;
	}
	*at = e->next;
	enclave_unlock();
	switchless_stop(e);
	enclave_lock();
	bool dead = e->dead;
	e->dead = true;
	for (struct link *l = e->links; l != NULL; l = l->in_enclave)
		if (l->fd >= 0 && l->depth > 0) {
			shutdown(l->fd, SHUT_RDWR); /* its ECALL says SGX_ERROR_ENCLAVE_LOST */
		} else if (l->fd >= 0) {
			close(l->fd);
			l->fd = -1;
		}
	enclave_unlock();
	if (!dead) {
		/* The monitor closes its end when pages and processes are gone. */
		struct pollfd p = {.fd = e->control, .events = POLLIN};
		char c;
		pthread_mutex_lock(&e->control_lock);
		shutdown(e->control, SHUT_WR);
		while (poll(&p, 1, 10000) > 0 && read(e->control, &c, 1) > 0)
			;
		close(e->control);
		pthread_mutex_unlock(&e->control_lock);
	}
	enclave_put(e);
	return SGX_SUCCESS;
}

API sgx_status_t sgx_get_target_info(sgx_enclave_id_t id, sgx_target_info_t *target);
API sgx_status_t sgx_get_target_info(sgx_enclave_id_t id, sgx_target_info_t *target)
{
	if (target == NULL)
		return SGX_ERROR_INVALID_PARAMETER;
	struct enclave *e = enclave_get(id);
	if (e == NULL)
		return SGX_ERROR_INVALID_ENCLAVE_ID;
	memcpy(target, e->self, sizeof *target);
	enclave_put(e);
	return SGX_SUCCESS;
}
