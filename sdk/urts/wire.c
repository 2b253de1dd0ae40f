/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "internal.h"

#define HEAD 8
#define MAX_FILES 3

uint32_t get32(const uint8_t *p)
{
	uint32_t v;
	memcpy(&v, p, sizeof v);
	return v;
}

uint64_t get64(const uint8_t *p)
{
	uint64_t v;
	memcpy(&v, p, sizeof v);
	return v;
}

void put32(uint8_t *p, uint32_t v) { memcpy(p, &v, sizeof v); }
void put64(uint8_t *p, uint64_t v) { memcpy(p, &v, sizeof v); }

/* The monitor's socket: HOLDFAST_ENCLAVE_SOCKET, else the user's own, else the
 * machine's; as `holdfast enclave monitor` chooses. */
static int try_path(const char *path)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	if (strlen(path) >= sizeof a.sun_path) {
		errno = ENAMETOOLONG;
		return -1;
	}
	strcpy(a.sun_path, path);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	int r;
	do
		r = connect(fd, (struct sockaddr *)&a, sizeof a);
	while (r < 0 && errno == EINTR);
	if (r == 0)
		return fd;
	int e = errno;
	close(fd);
	errno = e;
	return -1;
}

int wire_connect(int *error)
{
	const char *path = getenv("HOLDFAST_ENCLAVE_SOCKET"), *dir = getenv("XDG_RUNTIME_DIR");
	char own[256];
	int fd = -1;
	if (path != NULL) {
		fd = try_path(path);
	} else {
		if (dir != NULL && (size_t)snprintf(own, sizeof own, "%s/holdfast/enclave.sock", dir) < sizeof own) {
			fd = try_path(own);
			path = own;
		}
		if (fd < 0) {
			path = "/run/holdfast/enclave.sock";
			fd = try_path(path);
		}
	}
	*error = errno;
	if (fd < 0)
		log_error("expected the enclave monitor at %s: %s; start `holdfast enclave monitor`, or set HOLDFAST_ENCLAVE_SOCKET", path, strerror(*error));
	return fd;
}

int wire_send(int fd, uint16_t kind, const void *payload, uint32_t size, const int *files, int count)
{
	uint8_t b[HEAD + MAX_PAYLOAD];
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(MAX_FILES * sizeof(int))];
	} control;
	if (size > MAX_PAYLOAD || count > MAX_FILES)
		return -1;
	uint16_t n = (uint16_t)count;
	put32(b, size);
	memcpy(b + 4, &kind, 2);
	memcpy(b + 6, &n, 2);
	if (size > 0)
		memcpy(b + HEAD, payload, size);
	size_t total = HEAD + size, sent = 0;
	while (sent < total) {
		struct iovec v = {b + sent, total - sent};
		struct msghdr h = {.msg_iov = &v, .msg_iovlen = 1};
		if (count > 0 && sent == 0) {
			memset(&control, 0, sizeof control);
			h.msg_control = control.room;
			h.msg_controllen = CMSG_SPACE((size_t)count * sizeof(int));
			struct cmsghdr *c = CMSG_FIRSTHDR(&h);
			c->cmsg_level = SOL_SOCKET;
			c->cmsg_type = SCM_RIGHTS;
			c->cmsg_len = CMSG_LEN((size_t)count * sizeof(int));
			memcpy(CMSG_DATA(c), files, (size_t)count * sizeof(int));
		}
		ssize_t r = sendmsg(fd, &h, MSG_NOSIGNAL);
		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			return -1;
		sent += (size_t)r;
	}
	return 0;
}

/* read_all reads exactly size bytes and closes descriptors that come along. */
static int read_all(int fd, uint8_t *b, size_t size)
{
	while (size > 0) {
		union {
			struct cmsghdr head;
			char room[CMSG_SPACE(MAX_FILES * sizeof(int))];
		} control;
		struct iovec v = {b, size};
		struct msghdr h = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof control.room};
		ssize_t r = recvmsg(fd, &h, MSG_CMSG_CLOEXEC);
		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			return -1;
		for (struct cmsghdr *c = CMSG_FIRSTHDR(&h); c != NULL; c = CMSG_NXTHDR(&h, c)) {
			if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
				continue;
			for (size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++) {
				int got;
				memcpy(&got, CMSG_DATA(c) + i * sizeof(int), sizeof got);
				close(got);
			}
		}
		b += r;
		size -= (size_t)r;
	}
	return 0;
}

int wire_receive(int fd, struct message *m)
{
	uint8_t head[HEAD];
	if (read_all(fd, head, sizeof head) < 0)
		return -1;
	m->size = get32(head);
	memcpy(&m->kind, head + 4, 2);
	uint32_t keep = m->size < MAX_PAYLOAD ? m->size : MAX_PAYLOAD;
	if (read_all(fd, m->payload, keep) < 0)
		return -1;
	for (uint32_t rest = m->size - keep; rest > 0;) {
		uint8_t skip[256];
		uint32_t n = rest < sizeof skip ? rest : (uint32_t)sizeof skip;
		if (read_all(fd, skip, n) < 0)
			return -1;
		rest -= n;
	}
	m->size = keep;
	return 0;
}
