/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
typedef void *buffer_t;
typedef const void *ro_buffer_t;
typedef int array_t[6];
