/* SPDX-License-Identifier: Apache-2.0 */
/* sgx_get_metadata, and the two variables of Intel's library by which an
 * application asks for its messages: they exist so that it links. */
#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"

#define MAGIC 0x86A80294635D0E4CULL
#define LEGACY_SIZE 0x750 /* what callers have room for */

API int sgx_trace_loglevel;
int sgx_trace_loglevel;
API void (*sgx_trace_logger_callback)(int level, const char *message);
void (*sgx_trace_logger_callback)(int level, const char *message);

/* section finds the note of a file of size bytes at b; NULL if it is none. */
static const uint8_t *section(const uint8_t *b, uint64_t size, uint64_t *length)
{
	Elf64_Ehdr h;
	Elf64_Shdr s, names;
	if (size < sizeof h)
		return NULL;
	memcpy(&h, b, sizeof h);
	if (memcmp(h.e_ident, ELFMAG, SELFMAG) != 0 || h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_shentsize != sizeof s || h.e_shoff > size || (size - h.e_shoff) / sizeof s < h.e_shnum || h.e_shstrndx >= h.e_shnum)
		return NULL;
	memcpy(&names, b + h.e_shoff + h.e_shstrndx * sizeof s, sizeof names);
	static const char name[] = ".note.sgxmeta";
	for (unsigned i = 0; i < h.e_shnum; i++) {
		memcpy(&s, b + h.e_shoff + i * sizeof s, sizeof s);
		if (names.sh_offset > size || s.sh_name > size - names.sh_offset || size - names.sh_offset - s.sh_name < sizeof name || memcmp(b + names.sh_offset + s.sh_name, name, sizeof name) != 0)
			continue;
		if (s.sh_offset > size || s.sh_size > size - s.sh_offset)
			return NULL;
		*length = s.sh_size;
		return b + s.sh_offset;
	}
	return NULL;
}

API sgx_status_t sgx_get_metadata(const char *name, void *metadata);
API sgx_status_t sgx_get_metadata(const char *name, void *metadata)
{
	struct stat st;
	int fd = name == NULL || metadata == NULL ? -1 : open(name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return SGX_ERROR_INVALID_PARAMETER;
	void *p = MAP_FAILED;
	if (fstat(fd, &st) == 0 && st.st_size > 0)
		p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (p == MAP_FAILED)
		return SGX_ERROR_INVALID_ENCLAVE;
	uint64_t length = 0, head = 12;
	const uint8_t *note = section(p, (uint64_t)st.st_size, &length);
	sgx_status_t s = SGX_ERROR_INVALID_ENCLAVE;
	if (note != NULL) {
		s = SGX_ERROR_INVALID_METADATA;
		if (length >= head && get32(note) < length)
			head += get32(note);
		if (length >= head + LEGACY_SIZE && get64(note + head) == MAGIC && get32(note + head + 16) != 0) {
			memcpy(metadata, note + head, LEGACY_SIZE);
			s = SGX_SUCCESS;
		}
	}
	munmap(p, (size_t)st.st_size);
	return s;
}

API sgx_status_t sgx_get_enclave_file_handle(void *address, int *fd);
API sgx_status_t sgx_get_enclave_file_handle(void *address, int *fd)
{
	(void)address;
	(void)fd;
	return SGX_ERROR_INVALID_PARAMETER; /* there is no device */
}
