/* SPDX-License-Identifier: Apache-2.0 */
/* What Mbed TLS calls where it reads key files or prints the results of its
 * self-tests: in an enclave there are no files, no clock, and nobody reads (build.sh leads the
 * calls here). */
#include <stddef.h>

void *holdfast_no_fopen(const char *, const char *);
int holdfast_no_fclose(void *);
size_t holdfast_no_fread(void *, size_t, size_t, void *);
size_t holdfast_no_fwrite(const void *, size_t, size_t, void *);
int holdfast_no_ferror(void *);
int holdfast_no_feof(void *);
char *holdfast_no_fgets(char *, int, void *);
int holdfast_no_fputs(const char *, void *);
int holdfast_no_fseek(void *, long, int);
long holdfast_no_ftell(void *);
void holdfast_no_setbuf(void *, char *);
int holdfast_no_puts(const char *);
int holdfast_no_putchar(int);
int holdfast_no_printf(const char *, ...);
int holdfast_no___printf_chk(int, const char *, ...);
void *holdfast_no_gmtime_r(const void *, void *);

void *holdfast_no_fopen(const char *name, const char *mode) { return (void)name, (void)mode, NULL; }
int holdfast_no_fclose(void *f) { return (void)f, -1; }
size_t holdfast_no_fread(void *p, size_t a, size_t b, void *f) { return (void)p, (void)a, (void)b, (void)f, 0; }
size_t holdfast_no_fwrite(const void *p, size_t a, size_t b, void *f) { return (void)p, (void)a, (void)b, (void)f, 0; }
int holdfast_no_ferror(void *f) { return (void)f, 1; }
int holdfast_no_feof(void *f) { return (void)f, 1; }
char *holdfast_no_fgets(char *p, int n, void *f) { return (void)p, (void)n, (void)f, NULL; }
int holdfast_no_fputs(const char *p, void *f) { return (void)p, (void)f, -1; }
int holdfast_no_fseek(void *f, long n, int from) { return (void)f, (void)n, (void)from, -1; }
long holdfast_no_ftell(void *f) { return (void)f, -1; }
void holdfast_no_setbuf(void *f, char *p) { (void)f, (void)p; }
int holdfast_no_puts(const char *p) { return (void)p, -1; }
int holdfast_no_putchar(int c) { return (void)c, -1; }
int holdfast_no_printf(const char *p, ...) { return (void)p, 0; }
int holdfast_no___printf_chk(int flag, const char *p, ...) { return (void)flag, (void)p, 0; }
void *holdfast_no_gmtime_r(const void *t, void *to) { return (void)t, (void)to, NULL; }
