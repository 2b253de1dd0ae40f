/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that threads use is replaced under their feet, so all of them must stand
 * still. Signals would show in the application (EINTR, its handlers), so a helper
 * process that shares our address space attaches to every thread as a debugger
 * does, works, and lets them go. The helper has no thread control block: nothing
 * of the C library may be called in it, and errno does not exist. */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "internal.h"

#define MAX_THREADS 8192
#define STACK_SIZE (64 * 1024)
#define SEIZE 0x4206
#define INTERRUPT 0x4207

struct stopped {
	int tid, signal;
};

struct job {
	struct work *work; /* a copy in the job's own memory */
	int count;
	int pid;
	atomic_int go;
	int result; /* 0 or -errno */
	int threads;
	struct stopped stopped[MAX_THREADS];
	char names[32768];
	char stack[STACK_SIZE] __attribute__((aligned(64)));
};

static long raw(long nr, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long ret;
	__asm__ volatile("syscall" : "=a"(ret) : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
	return ret;
}

static char *append(char *s, const char *t)
{
	while (*t != 0)
		*s++ = *t++;
	*s = 0;
	return s;
}

static char *decimal(char *s, unsigned v)
{
	char d[12];
	int n = 0;
	do
		d[n++] = (char)('0' + v % 10);
	while ((v /= 10) != 0);
	while (n > 0)
		*s++ = d[--n];
	*s = 0;
	return s;
}

/* gone: the thread is a zombie or no more, so that it need not be stopped. */
static bool gone(struct job *j, unsigned tid)
{
	char path[64], b[256];
	append(decimal(append(decimal(append(path, "/proc/"), (unsigned)j->pid), "/task/"), tid), "/stat");
	long fd = raw(SYS_open, (long)path, O_RDONLY | O_CLOEXEC, 0, 0, 0, 0);
	if (fd < 0)
		return true;
	long n = raw(SYS_read, fd, (long)b, sizeof b - 1, 0, 0, 0);
	raw(SYS_close, fd, 0, 0, 0, 0, 0);
	for (long i = n - 1; i > 1; i--)
		if (b[i - 1] == ')' && b[i] == ' ')
			return i + 1 < n && (b[i + 1] == 'Z' || b[i + 1] == 'X');
	return n <= 0;
}

static int stop(struct job *j, int tid)
{
	for (int i = 0; i < j->threads; i++)
		if (j->stopped[i].tid == tid)
			return 0;
	if (j->threads == MAX_THREADS)
		return -EAGAIN;
	long r = raw(SYS_ptrace, SEIZE, tid, 0, 0, 0, 0);
	if (r < 0)
		return gone(j, (unsigned)tid) ? 0 : (int)r;
	struct stopped *s = &j->stopped[j->threads++];
	s->tid = tid;
	s->signal = 0;
	raw(SYS_ptrace, INTERRUPT, tid, 0, 0, 0, 0);
	int status = 0;
	do
		r = raw(SYS_wait4, tid, (long)&status, __WALL, 0, 0, 0);
	while (r == -EINTR);
	if (r < 0 || !WIFSTOPPED(status)) { /* it ended */
		j->threads--;
		return 0;
	}
	if ((status >> 16) == 0) /* a signal was on its way: it gets it afterwards */
		s->signal = WSTOPSIG(status);
	return 1;
}

/* stop_all goes over the list until a round finds no new thread: threads that
 * still ran may have made others. */
static int stop_all(struct job *j)
{
	char path[64];
	append(decimal(append(path, "/proc/"), (unsigned)j->pid), "/task");
	for (bool found = true; found;) {
		found = false;
		long fd = raw(SYS_open, (long)path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0, 0, 0, 0);
		if (fd < 0)
			return (int)fd;
		for (;;) {
			long n = raw(SYS_getdents64, fd, (long)j->names, sizeof j->names, 0, 0, 0);
			if (n <= 0)
				break;
			for (long at = 0; at < n;) {
				unsigned short size = (unsigned short)((unsigned char)j->names[at + 16] | (unsigned char)j->names[at + 17] << 8);
				int tid = 0;
				for (const char *s = j->names + at + 19; *s >= '0' && *s <= '9'; s++)
					tid = tid * 10 + (*s - '0');
				int r = tid > 0 ? stop(j, tid) : 0;
				if (r < 0) {
					raw(SYS_close, fd, 0, 0, 0, 0, 0);
					return r;
				}
				found = found || r > 0;
				at += size;
			}
		}
		raw(SYS_close, fd, 0, 0, 0, 0, 0);
	}
	return 0;
}

/* touched says which of 512 pages have content; -1 in w->pagemap: all. */
static int touched(const struct work *w, uint64_t addr, uint64_t pages, uint64_t *entries)
{
	long n = raw(SYS_pread64, w->pagemap, (long)entries, (long)(pages * 8), (long)(addr / PAGE * 8), 0, 0);
	return n == (long)(pages * 8) ? 0 : -EIO;
}

#define BATCH 512

/* into writes pages of private memory to the file. */
static int into(const struct work *w, uint64_t *entries)
{
	for (uint64_t at = w->from; at < w->from + w->length;) {
		uint64_t pages = (w->from + w->length - at) / PAGE, run = 0;
		if (pages > BATCH)
			pages = BATCH;
		if (w->pagemap >= 0 && touched(w, at, pages, entries) < 0)
			return -EIO;
		for (uint64_t i = 0; i < pages; i = run) {
			bool full = w->pagemap < 0 || (entries[i] >> 62) != 0;
			for (run = i + 1; run < pages && (w->pagemap < 0 || (entries[run] >> 62) != 0) == full; run++)
				;
			if (!full)
				continue;
			uint64_t from = at + i * PAGE, left = (run - i) * PAGE;
			while (left > 0) {
				long n = raw(SYS_pwrite64, w->file, (long)from, (long)left, (long)(w->offset + from - w->addr), 0, 0);
				if (n == -EINTR)
					continue;
				if (n <= 0)
					return n == 0 ? -EIO : (int)n;
				from += (uint64_t)n;
				left -= (uint64_t)n;
			}
		}
		at += pages * PAGE;
	}
	return 0;
}

/* back reads pages of the file into fresh private memory. */
static int back(const struct work *w)
{
	uint64_t end = w->offset + w->size;
	for (uint64_t at = w->offset; at < end;) {
		long data = raw(SYS_lseek, w->file, (long)at, SEEK_DATA, 0, 0, 0);
		if (data == -ENXIO || data >= (long)end)
			return 0;
		if (data < 0)
			return (int)data;
		long hole = raw(SYS_lseek, w->file, data, SEEK_HOLE, 0, 0, 0);
		if (hole < 0)
			return (int)hole;
		if (hole > (long)end)
			hole = (long)end;
		for (long from = data; from < hole;) {
			long n = raw(SYS_pread64, w->file, (long)(w->addr + (uint64_t)from - w->offset), hole - from, from, 0, 0);
			if (n == -EINTR)
				continue;
			if (n <= 0)
				return n == 0 ? -EIO : (int)n;
			from += n;
		}
		at = (uint64_t)hole;
	}
	return 0;
}

static int replace(const struct work *w, uint64_t *entries)
{
	long r;
	if (w->share) {
		r = into(w, entries);
		if (r < 0)
			return (int)r;
		r = raw(SYS_mmap, (long)w->addr, (long)w->size, w->prot, MAP_SHARED | MAP_FIXED, w->file, (long)w->offset);
		return r < 0 ? (int)r : 0;
	}
	r = raw(SYS_mmap, (long)w->addr, (long)w->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
	if (r < 0)
		return (int)r;
	r = back(w);
	if (r == 0 && w->prot != (PROT_READ | PROT_WRITE))
		r = raw(SYS_mprotect, (long)w->addr, (long)w->size, w->prot, 0, 0, 0);
	return (int)r;
}

static int helper(void *arg)
{
	struct job *j = arg;
	uint64_t entries[BATCH];
	while (atomic_load(&j->go) == 0)
		raw(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
	if (atomic_load(&j->go) < 0)
		return 0;
	int r = stop_all(j);
	for (int i = 0; i < j->count && r == 0; i++)
		r = replace(&j->work[i], entries);
	j->result = r;
	for (int i = 0; i < j->threads; i++)
		raw(SYS_ptrace, PTRACE_DETACH, j->stopped[i].tid, 0, j->stopped[i].signal, 0, 0);
	return 0;
}

int world_run(struct work *w, int count)
{
	size_t size = sizeof(struct job) + (size_t)count * sizeof *w;
	/* Shared, so that it is never itself memory to be replaced. */
	struct job *j = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (j == MAP_FAILED)
		return -errno;
	j->work = (struct work *)(void *)(j + 1);
	memcpy(j->work, w, (size_t)count * sizeof *w);
	j->count = count;
	j->pid = (int)getpid();
	j->result = -ECHILD;
	/* The helper runs none of the application's signal handlers. No exit signal:
	 * its SIGCHLD and wait are not concerned. */
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int child = clone(helper, j->stack + STACK_SIZE, CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_UNTRACED, j);
	if (child < 0) {
		int e = errno;
		pthread_sigmask(SIG_SETMASK, &before, NULL);
		munmap(j, size);
		return -e;
	}
	prctl(PR_SET_PTRACER, child, 0, 0, 0); /* where Yama restricts who may attach */
	atomic_store(&j->go, 1);
	int r;
	do
		r = waitpid(child, NULL, __WALL);
	while (r < 0 && errno == EINTR);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	r = j->result;
	munmap(j, size);
	return r;
}
