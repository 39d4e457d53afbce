# SPDX-License-Identifier: MIT
# Everything is built into $(BUILD); nothing is written outside it.

BUILD   ?= build
PREFIX  ?= /usr/local
DESTDIR ?=
CC      ?= gcc
CXX     ?= g++
VERSION := 0.1.0

STD      := -std=c11 -D_GNU_SOURCE
WARNINGS := -Wall -Wextra -Wundef -Wshadow -Wmissing-prototypes -Wstrict-prototypes -Wcast-qual -Wconversion
ifdef WERROR
WARNINGS += -Werror
endif
CFLAGS   ?= -O2 -g
INCLUDES := -Isrc -I.
COMPILE   = $(CC) $(STD) $(WARNINGS) $(CFLAGS) $(INCLUDES) -DPINPOOL_VERSION='"$(VERSION)"' -MMD -MP

BASE_SRC     := $(wildcard src/base/*.c)
POOL_SRC     := $(wildcard src/pool/*.c)
EVIDENCE_SRC := $(wildcard src/evidence/*.c)
PRELOAD_SRC  := $(wildcard preload/*.c)
CLI_SRC      := $(wildcard src/cli/*.c)
LIB_SRC      := $(BASE_SRC) $(POOL_SRC) $(EVIDENCE_SRC) $(PRELOAD_SRC)

LIB_OBJ := $(LIB_SRC:%.c=$(BUILD)/lib/%.o)
CLI_OBJ := $(CLI_SRC:%.c=$(BUILD)/cli/%.o) $(BASE_SRC:%.c=$(BUILD)/cli/%.o)

.PHONY: all
all: $(BUILD)/libpinpool.so $(BUILD)/pinpool

$(BUILD)/libpinpool.so: $(LIB_OBJ) preload/pinpool.map
	$(CC) $(CFLAGS) -shared -Wl,-soname,libpinpool.so -Wl,-z,defs -Wl,-z,nodelete -Wl,-z,relro -Wl,-z,now \
	  -Wl,--version-script=preload/pinpool.map -o $@ $(LIB_OBJ) -ldl -lpthread

$(BUILD)/pinpool: $(CLI_OBJ)
	$(CC) $(CFLAGS) -o $@ $(CLI_OBJ) -ljson-c

# -ffreestanding keeps the compiler from turning our own malloc family into calls of itself.
$(BUILD)/lib/%.o: %.c
	@mkdir -p $(@D)
	$(COMPILE) -fPIC -fvisibility=hidden -ftls-model=initial-exec -fno-builtin-malloc -fno-builtin-calloc \
	  -fno-builtin-realloc -fno-builtin-free -c -o $@ $<

$(BUILD)/cli/%.o: %.c
	@mkdir -p $(@D)
	$(COMPILE) -c -o $@ $<

.PHONY: clean
clean:
	rm -rf $(BUILD)

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
