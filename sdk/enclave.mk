# SPDX-License-Identifier: Apache-2.0
# Flags for enclaves and their applications; HOLDFAST_SDK is this folder.
MUSL_INCLUDE ?= /usr/include/$(shell uname -m)-linux-musl
MUSL_LIB ?= /usr/lib/$(shell uname -m)-linux-musl
ENCLAVE_CFLAGS = -std=gnu11 -O2 -Wall -Wextra -fPIE -fvisibility=hidden -fstack-protector-strong -fcf-protection=none -ffreestanding -nostdinc -isystem $(MUSL_INCLUDE) -isystem $(shell $(CC) -print-file-name=include) -I$(HOLDFAST_SDK)/include -I.
ENCLAVE_LDFLAGS = -nostdlib -nodefaultlibs -nostartfiles -pie -Wl,--no-dynamic-linker -Wl,-Bstatic -Wl,-Bsymbolic -Wl,--no-undefined -Wl,--export-dynamic -Wl,-e,enclave_entry \
  -Wl,-z,text -Wl,-z,noexecstack -Wl,-z,separate-code -Wl,--build-id=none -Wl,--whole-archive -L$(HOLDFAST_SDK)/lib -lsgx_trts -Wl,--no-whole-archive -L$(MUSL_LIB) -Wl,--start-group -lc -lsgx_trts $(shell $(CC) -print-libgcc-file-name) -Wl,--end-group
APP_CFLAGS = -std=gnu11 -O2 -Wall -Wextra -I$(HOLDFAST_SDK)/include -I.
APP_LDFLAGS = -L$(HOLDFAST_SDK)/lib -lsgx_urts -lpthread -Wl,-rpath,$(HOLDFAST_SDK)/lib
# Cryptography: put it before ENCLAVE_LDFLAGS.
ENCLAVE_CRYPTO = -L$(HOLDFAST_SDK)/lib -Wl,--start-group -lsgx_tcrypto -lsgx_mbedcrypto -Wl,--end-group
