/* SPDX-License-Identifier: Apache-2.0 */
/* On SGX an enclave reaches all memory of its application. Here it runs in another
 * process, so memory that it touches moves into a file that both map, at the same
 * addresses (page by page the application notices nothing):
 *
 *   private and writable    moved in place, with every thread standing still
 *   private and read-only   copied; taken away if it becomes something else
 *   already in our file     mapped as it is
 *   shared with others      refused: it cannot be moved without parting it from them
 *
 * Regions have their own place in the file, so that growing one (mremap) never
 * reaches another. Before each ECALL and after each OCALL what was granted is
 * compared with what is mapped, and what is gone is taken away. */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "internal.h"

#define FILE_SIZE (1UL << 60)
#define WINDOW (1UL << 36)    /* of the file for each region */
#define WHOLE (64UL << 20)    /* mappings up to this size move as one */
#define PIECE (16UL << 20)    /* of larger ones */
#define STACK_MOST (64UL << 20)
#define MAX_REGIONS 4000

/* What an enclave was granted: as it lies in our file, or a copy. */
struct granted {
	struct region r;
	bool copy;
	uint64_t inode, file_offset; /* of the copied mapping */
	bool moved;                  /* by us, so that fork moves it back */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int file = -1;
static dev_t file_dev;
static ino_t file_ino;
static uint64_t next_window = WINDOW;
static struct granted granted[MAX_REGIONS];
static int count;

static bool strict(void)
{
	const char *s = getenv("HOLDFAST_ENCLAVE_MEMORY");
	return s != NULL && strcmp(s, "strict") == 0;
}

static int open_file(void)
{
	struct rlimit l;
	struct stat st;
	if (file >= 0)
		return file;
	if (getrlimit(RLIMIT_FSIZE, &l) == 0 && l.rlim_cur < FILE_SIZE) {
		log_error("the limit of file sizes is %llu bytes (ulimit -f); memory shared with enclaves needs `ulimit -f unlimited`", (unsigned long long)l.rlim_cur);
		return -1;
	}
	int fd = memfd_create("enclave-application", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0 || ftruncate(fd, FILE_SIZE) < 0 || fstat(fd, &st) < 0) {
		log_error("memory shared with enclaves: %s", strerror(errno));
		if (fd >= 0)
			close(fd);
		return -1;
	}
	file_dev = st.st_dev;
	file_ino = st.st_ino;
	return file = fd;
}

int memory_file(void)
{
	pthread_mutex_lock(&lock);
	int fd = open_file();
	pthread_mutex_unlock(&lock);
	return fd;
}

static uint64_t window(void)
{
	uint64_t w = next_window;
	if (w >= FILE_SIZE - WINDOW)
		return 0;
	next_window += WINDOW;
	return w;
}

static bool ours(const struct mapping *m)
{
	return m->shared && m->inode == file_ino && m->major == major(file_dev) && m->minor == minor(file_dev);
}

/* find is the mapping at an address, and what lies around it. */
struct find {
	uint64_t addr;
	struct mapping m;
	bool found;
	uint64_t below; /* end of the mapping before */
};

static bool find(const struct mapping *m, void *arg)
{
	struct find *f = arg;
	if (m->end <= f->addr) {
		f->below = m->end;
		return true;
	}
	if (m->start <= f->addr) {
		f->m = *m;
		f->found = true;
	}
	return false;
}

static bool keep(const struct granted *g)
{
	for (int i = 0; i < count; i++)
		if (granted[i].r.addr == g->r.addr && granted[i].r.size == g->r.size) {
			bool moved = granted[i].moved || g->moved;
			granted[i] = *g;
			granted[i].moved = moved && !g->copy;
			return true;
		}
	if (count == MAX_REGIONS) {
		log_error("expected at most %d pieces of memory that an enclave uses, one more was touched", MAX_REGIONS);
		return false;
	}
	granted[count++] = *g;
	return true;
}

static const char *kind(const struct mapping *m)
{
	return m->stack ? "stack" : m->inode != 0 ? "file mapping" : "memory";
}

/* piece is what moves or is copied at once: the mapping, or a part of a large one. */
static void piece(const struct find *f, uint64_t *start, uint64_t *end)
{
	const struct mapping *m = &f->m;
	*start = m->start;
	*end = m->end;
	if (*end - *start <= WHOLE)
		return;
	*start = f->addr & ~(PIECE - 1);
	*end = *start + PIECE;
	if (*start < m->start)
		*start = m->start;
	if (*end > m->end)
		*end = m->end;
}

/* move moves private writable memory into our file. */
static bool move(const struct find *f, struct granted *g)
{
	const struct mapping *m = &f->m;
	uint64_t start, end;
	piece(f, &start, &end);
	struct work w = {.share = true, .from = start, .length = end - start, .prot = PROT_READ | PROT_WRITE | (m->exec ? PROT_EXEC : 0), .file = file, .pagemap = -1};
	if (m->stack && start == m->start && end == m->end) {
		/* What moves does not grow by itself any more: give it all its room. */
		struct rlimit l;
		uint64_t most = getrlimit(RLIMIT_STACK, &l) == 0 && l.rlim_cur < STACK_MOST ? l.rlim_cur & ~(PAGE - 1) : STACK_MOST;
		uint64_t low = end - most, gap = f->below + 256 * PAGE;
		if (low < gap)
			low = gap;
		if (low < start)
			start = low;
	}
	w.addr = start;
	w.size = end - start;
	w.offset = window();
	if (w.offset == 0)
		return false;
	if (m->inode == 0)
		w.pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	int r = world_run(&w, 1);
	if (w.pagemap >= 0)
		close(w.pagemap);
	if (r < 0) {
		log_error("%s at %#lx-%#lx cannot be shared with the enclave: the threads of this process could not be stopped, or the memory not be moved: %s", kind(m), (unsigned long)start, (unsigned long)end, strerror(-r));
		return false;
	}
	log_info("moved %s at %#lx-%#lx onto memory shared with the enclave", kind(m), (unsigned long)start, (unsigned long)end);
	g->r = (struct region){start, end - start, w.offset, 1};
	g->moved = true;
	return true;
}

/* copy gives the enclave a copy of memory that the application only reads. */
static bool copy(const struct find *f, struct granted *g)
{
	const struct mapping *m = &f->m;
	uint64_t start, end;
	piece(f, &start, &end);
	uint64_t offset = window();
	if (offset == 0)
		return false;
	for (uint64_t at = start; at < end;) {
		ssize_t n = pwrite(file, (const void *)at, end - at, (off_t)(offset + at - start));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) { /* behind the end of the file that is mapped there */
			end = (at + PAGE - 1) & ~(PAGE - 1);
			break;
		}
		at += (uint64_t)n;
	}
	if (f->addr >= end)
		return false;
	log_info("copied %s at %#lx-%#lx, which is read only, for the enclave", kind(m), (unsigned long)start, (unsigned long)end);
	g->r = (struct region){start, end - start, offset, 0};
	g->copy = true;
	g->inode = m->inode;
	g->file_offset = m->offset + (start - m->start);
	return true;
}

static bool resolve(uint64_t addr, struct region *r)
{
	struct find f = {.addr = addr};
	struct granted g = {0};
	if (maps_walk(find, &f) < 0 || !f.found || !f.m.read || f.m.special) {
		log_info("the enclave touched %#lx, where the application has no memory", (unsigned long)addr);
		return false;
	}
	if (ours(&f.m)) {
		g.r = (struct region){f.m.start, f.m.end - f.m.start, f.m.offset, f.m.write};
	} else if (strict()) {
		log_error("strict mode: the enclave touched %s at %#lx, outside the marshalling buffer (holdfast_enclave_buffer); refused", kind(&f.m), (unsigned long)addr);
		return false;
	} else if (f.m.shared) {
		log_error("the enclave touched memory at %#lx that this process shares with others (mapping %#lx-%#lx); refused: it cannot be moved", (unsigned long)addr, (unsigned long)f.m.start, (unsigned long)f.m.end);
		return false;
	} else if (!(f.m.write ? move(&f, &g) : copy(&f, &g))) {
		return false;
	}
	if (!keep(&g))
		return false;
	*r = g.r;
	return true;
}

bool memory_resolve(uint64_t addr, struct region *r)
{
	pthread_mutex_lock(&lock);
	bool ok = open_file() >= 0 && resolve(addr, r);
	pthread_mutex_unlock(&lock);
	return ok;
}

/* take_back takes a range away from every enclave; the lock is held. */
static void take_back(uint64_t addr, uint64_t size)
{
	uint8_t b[16];
	struct message m;
	put64(b, addr);
	put64(b + 8, size);
	enclave_lock();
	for (struct enclave *e = enclave_first(); e != NULL; e = e->next) {
		pthread_mutex_lock(&e->control_lock);
		if (!e->dead && (wire_send(e->control, MSG_REVOKE, b, sizeof b, NULL, 0) < 0 || wire_receive(e->control, &m) < 0 || m.kind != MSG_RESULT))
			log_info("enclave %llu: its memory could not be taken back; it is gone", (unsigned long long)e->id);
		pthread_mutex_unlock(&e->control_lock);
	}
	enclave_unlock();
}

/* still is how much of what was granted is as it was, found by one walk. */
static uint64_t covered[MAX_REGIONS];

static bool still(const struct mapping *m, void *arg)
{
	(void)arg;
	for (int i = 0; i < count; i++) {
		const struct granted *g = &granted[i];
		uint64_t start = g->r.addr > m->start ? g->r.addr : m->start;
		uint64_t end = g->r.addr + g->r.size < m->end ? g->r.addr + g->r.size : m->end;
		if (start >= end || !m->read)
			continue;
		bool same = g->copy ? !m->shared && !m->write && m->inode == g->inode && (m->inode == 0 || m->offset + (start - m->start) == g->file_offset + (start - g->r.addr))
				    : ours(m) && m->offset + (start - m->start) == g->r.offset + (start - g->r.addr) && m->write == (g->r.write != 0);
		if (same)
			covered[i] += end - start;
	}
	return true;
}

void memory_validate(void)
{
	pthread_mutex_lock(&lock);
	if (count > 0) {
		memset(covered, 0, (size_t)count * sizeof covered[0]);
		bool read = maps_walk(still, NULL) == 0;
		for (int i = count - 1; i >= 0; i--) {
			struct granted g = granted[i];
			if (read && covered[i] == g.r.size)
				continue;
			log_info("took back %#lx-%#lx: the application changed it", (unsigned long)g.r.addr, (unsigned long)(g.r.addr + g.r.size));
			granted[i] = granted[--count];
			take_back(g.r.addr, g.r.size);
			if (covered[i] == 0 || g.copy) /* nothing of it is in use any more */
				(void)fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)g.r.offset, (off_t)g.r.size);
			covered[i] = covered[count];
		}
	}
	pthread_mutex_unlock(&lock);
}

void *memory_stack(size_t size)
{
	pthread_mutex_lock(&lock);
	void *p = NULL;
	uint64_t w;
	if (open_file() >= 0 && (w = window()) != 0) {
		/* A page without access before and behind. */
		char *room = mmap(NULL, size + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (room != MAP_FAILED) {
			p = mmap(room + PAGE, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, (off_t)w);
			if (p == MAP_FAILED) {
				munmap(room, size + 2 * PAGE);
				p = NULL;
			}
		}
	}
	pthread_mutex_unlock(&lock);
	return p;
}

void memory_free_stack(void *stack, size_t size)
{
	(void)madvise(stack, size, MADV_REMOVE); /* its pages in the file */
	munmap((char *)stack - PAGE, size + 2 * PAGE);
}

bool memory_reserve(uint64_t base, uint64_t size)
{
	static uint64_t from, to;
	bool ok = true;
	pthread_mutex_lock(&lock);
	if (from == to || base < from || base + size > to) {
		if (from != to)
			munmap((void *)from, to - from);
		void *p = mmap((void *)base, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
		ok = p == (void *)base;
		if (p != MAP_FAILED && !ok)
			munmap(p, size);
		from = ok ? base : 0;
		to = ok ? base + size : 0;
	}
	pthread_mutex_unlock(&lock);
	return ok;
}

/* holdfast_enclave_buffer returns memory that enclaves reach without any change
 * of mappings: the marshalling buffer of strict mode. It is freed by munmap. */
API void *holdfast_enclave_buffer(size_t size);
API void *holdfast_enclave_buffer(size_t size)
{
	size = (size + PAGE - 1) & ~(PAGE - 1);
	return size == 0 || size > WINDOW ? NULL : memory_stack(size);
}

/* fork: parent and child would share what moved. So it moves back before, and the
 * parent's enclaves ask for it again. The child has no enclaves, as on SGX. */
static void before_fork(void)
{
	pthread_mutex_lock(&lock);
	if (count == 0)
		return;
	int n = 0;
	struct work *w = mmap(NULL, (size_t)count * sizeof *w, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (int i = 0; i < count; i++) {
		const struct granted *g = &granted[i];
		take_back(g->r.addr, g->r.size);
		if (g->moved && w != MAP_FAILED)
			w[n++] = (struct work){.addr = g->r.addr, .size = g->r.size, .offset = g->r.offset, .prot = PROT_READ | PROT_WRITE, .file = file, .pagemap = -1};
	}
	int r = w == MAP_FAILED ? -ENOMEM : n > 0 ? world_run(w, n) : 0;
	if (r < 0) {
		log_error("fork: memory shared with enclaves could not be made private: %s", strerror(-r));
		abort(); /* else two processes would write to one stack */
	}
	for (int i = 0; i < n; i++)
		(void)fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)w[i].offset, (off_t)w[i].size);
	if (w != MAP_FAILED)
		munmap(w, (size_t)count * sizeof *w);
	count = 0;
}

static void parent_after_fork(void) { pthread_mutex_unlock(&lock); }

static void child_after_fork(void)
{
	if (file >= 0)
		close(file);
	file = -1;
	pthread_mutex_init(&lock, NULL);
	enclave_after_fork();
	call_after_fork();
}

/* The heap must not come and go: then it moves once and stays. So it grows from
 * its end only, in larger steps, and is one for all threads. */
__attribute__((constructor)) static void start(void)
{
	pthread_atfork(before_fork, parent_after_fork, child_after_fork);
	if (strict())
		return;
	mallopt(M_ARENA_MAX, 1);
	mallopt(M_MMAP_MAX, 0);
	mallopt(M_TOP_PAD, 1 << 20);
	mallopt(M_TRIM_THRESHOLD, 1 << 30);
}
