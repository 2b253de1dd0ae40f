/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

static int level(void)
{
	const char *s = getenv("HOLDFAST_ENCLAVE_LOG");
	if (s == NULL || strcmp(s, "error") == 0)
		return 1;
	return strcmp(s, "none") == 0 ? 0 : 2;
}

static void line(const char *format, va_list args) __attribute__((format(printf, 1, 0)));
static void line(const char *format, va_list args)
{
	char b[600];
	int n = snprintf(b, sizeof b, "libsgx_urts (holdfast): ");
	int m = vsnprintf(b + n, sizeof b - (size_t)n - 1, format, args);
	if (m < 0)
		return;
	size_t size = (size_t)n + (size_t)m;
	if (size > sizeof b - 2)
		size = sizeof b - 2;
	b[size] = '\n';
	if (write(STDERR_FILENO, b, size + 1) < 0)
		return; /* nobody listens */
}

void log_error(const char *format, ...)
{
	if (level() < 1)
		return;
	va_list args;
	va_start(args, format);
	line(format, args);
	va_end(args);
}

void log_info(const char *format, ...)
{
	if (level() < 2)
		return;
	va_list args;
	va_start(args, format);
	line(format, args);
	va_end(args);
}
