/* SPDX-License-Identifier: Apache-2.0 */
/* Reads /proc/self/maps without the heap: that is what is looked at. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

static const char *number(const char *s, unsigned base, uint64_t *v)
{
	*v = 0;
	for (;; s++) {
		unsigned d;
		if (*s >= '0' && *s <= '9')
			d = (unsigned)(*s - '0');
		else if (base == 16 && *s >= 'a' && *s <= 'f')
			d = (unsigned)(*s - 'a') + 10;
		else
			return s;
		*v = *v * base + d;
	}
}

/* One line: start-end perms offset major:minor inode   path */
static bool parse(const char *s, struct mapping *m)
{
	uint64_t a, b;
	memset(m, 0, sizeof *m);
	s = number(s, 16, &m->start);
	if (*s++ != '-')
		return false;
	s = number(s, 16, &m->end);
	if (*s++ != ' ' || strlen(s) < 5)
		return false;
	m->read = s[0] == 'r';
	m->write = s[1] == 'w';
	m->exec = s[2] == 'x';
	m->shared = s[3] == 's';
	s = number(s + 5, 16, &m->offset);
	if (*s++ != ' ')
		return false;
	s = number(s, 16, &a);
	if (*s++ != ':')
		return false;
	s = number(s, 16, &b);
	if (*s++ != ' ')
		return false;
	m->major = (uint32_t)a;
	m->minor = (uint32_t)b;
	s = number(s, 10, &m->inode);
	while (*s == ' ')
		s++;
	m->stack = strcmp(s, "[stack]") == 0;
	m->special = strncmp(s, "[v", 2) == 0; /* vdso, vvar, vsyscall */
	return true;
}

int maps_walk(bool (*f)(const struct mapping *m, void *arg), void *arg)
{
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	char b[8192];
	size_t have = 0;
	int result = 0;
	for (;;) {
		ssize_t n = read(fd, b + have, sizeof b - 1 - have);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			result = -errno;
		if (n <= 0)
			break;
		have += (size_t)n;
		b[have] = 0;
		char *s = b, *end;
		while ((end = strchr(s, '\n')) != NULL) {
			struct mapping m;
			*end = 0;
			if (!parse(s, &m)) {
				result = -EINVAL;
				goto out;
			}
			if (!f(&m, arg))
				goto out;
			s = end + 1;
		}
		have -= (size_t)(s - b);
		memmove(b, s, have);
		if (have == sizeof b - 1) {
			result = -EINVAL;
			break;
		}
	}
out:
	close(fd);
	return result;
}
