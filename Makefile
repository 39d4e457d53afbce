# SPDX-License-Identifier: MIT
# Everything is built into $(BUILD); nothing is written outside it, but by install.
#
#   make            the library and the tool          make install    PREFIX, DESTDIR
#   make demo       the two-minute tour               make lint       clang-tidy, cppcheck, shellcheck
#   make check      every test                        make format     clang-format
#   make check-services  services under dumps, also the large ones
#   make bench      the cost table                    make dist       a source archive
#   make check-fresh       demo and check in a minimal Debian, as root
#   make check-aarch64     the library's tests, for aarch64 under qemu-user
#   make experiment-NAME   one of scripts/experiments

BUILD   ?= build
PREFIX  ?= /usr/local
DESTDIR ?=
CC      ?= gcc
CXX     ?= g++
VERSION := 0.1.0
INSTALL ?= install

STD      := -std=c11 -D_GNU_SOURCE
WARNINGS := -Wall -Wextra -Wundef -Wshadow -Wmissing-prototypes -Wstrict-prototypes -Wcast-qual -Wconversion
WARNINGS_CXX := -Wall -Wextra -Wundef -Wshadow -Wcast-qual -Wconversion
ifdef WERROR
WARNINGS += -Werror
WARNINGS_CXX += -Werror
endif
CFLAGS   ?= -O2 -g
CXXFLAGS ?= -O2 -g
LDFLAGS  ?=
DEFINES  := -DPINPOOL_VERSION='"$(VERSION)"'
INCLUDES := -Isrc -I.
COMPILE   = $(CC) $(STD) $(WARNINGS) $(CFLAGS) $(INCLUDES) $(DEFINES) -MMD -MP
# Programs under test: the compiler must not know what malloc does, or it leaves calls out.
COMPILE_TEST = $(CC) $(STD) $(WARNINGS) $(CFLAGS) $(INCLUDES) -Itests/support -Itests/unit $(DEFINES) -fno-builtin -MMD -MP

BASE_SRC     := $(wildcard src/base/*.c)
POOL_SRC     := $(wildcard src/pool/*.c)
EVIDENCE_SRC := $(wildcard src/evidence/*.c)
PRELOAD_SRC  := $(wildcard preload/*.c)
CLI_SRC      := $(shell find src/cli -name "*.c" | sort)
LIB_SRC      := $(BASE_SRC) $(POOL_SRC) $(EVIDENCE_SRC) $(PRELOAD_SRC)

LIB_OBJ := $(LIB_SRC:%.c=$(BUILD)/lib/%.o)
CLI_OBJ := $(CLI_SRC:%.c=$(BUILD)/cli/%.o) $(BASE_SRC:%.c=$(BUILD)/cli/%.o)
CLI_LIBS := -ljson-c -lgsl -lgslcblas -lm -lpcre2-8

# V=1 shows the commands; otherwise one word and the target.
ifndef V
Q := @
say = @printf '  %-5s %s\n' $(1) $(patsubst $(CURDIR)/%,%,$@)
endif

.PHONY: all
all: $(BUILD)/libpinpool.so $(BUILD)/pinpool $(BUILD)/pinpool.1

# -Bsymbolic-functions: what we call of ourselves is ours, whatever the program defines by the same name.
# initial-exec: thread-local storage that is there before any malloc, and needs none.
# -fexceptions: std::bad_alloc passes through our operator new.
$(BUILD)/lib/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(COMPILE) -fPIC -fvisibility=hidden -ftls-model=initial-exec -fexceptions \
	  -fno-builtin-malloc -fno-builtin-calloc -fno-builtin-realloc -fno-builtin-free -c -o $@ $<

$(BUILD)/libpinpool.so: $(LIB_OBJ) preload/pinpool.map
	$(call say,LINK)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -shared -Wl,-soname,libpinpool.so -Wl,-Bsymbolic-functions -Wl,-z,defs -Wl,-z,nodelete -Wl,-z,relro -Wl,-z,now \
	  -Wl,--version-script=preload/pinpool.map -o $@ $(LIB_OBJ) -ldl -lpthread

$(BUILD)/cli/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(COMPILE) -c -o $@ $<

$(BUILD)/pinpool: $(CLI_OBJ)
	$(call say,LINK)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(CLI_OBJ) $(CLI_LIBS)

$(BUILD)/pinpool.1: man/pinpool.1.in man/generate docs/limits.md $(BUILD)/pinpool
	$(call say,MAN)
	$(Q)man/generate $(BUILD)/pinpool $(VERSION) < $< > $@.tmp && mv $@.tmp $@

# ---- tests ---------------------------------------------------------------------------------------

TESTS := $(BUILD)/tests
UNIT_TESTS := $(addprefix $(TESTS)/unit/,block tier region bins cache heap options out retention statistics tool)
PLAIN_TESTS := $(patsubst tests/%.c,$(TESTS)/%,$(filter-out %/static_program.c %/sanitized_by_asan.c \
  %/sanitized_by_tsan.c %/sanitized_by_lsan.c,$(wildcard tests/fault/*.c tests/account/*.c tests/differential/*.c)))
# clang's LeakSanitizer is linked in statically and differs from gcc's; where clang has its runtime, both are tried.
CLANG_LSAN := $(if $(wildcard $(shell clang -print-file-name=libclang_rt.lsan-$(shell uname -m).a 2>/dev/null)),\
  $(TESTS)/fault/sanitized_by_lsan_of_clang)
SPECIAL_TESTS := $(TESTS)/fault/static_program $(TESTS)/fault/sanitized_by_asan $(TESTS)/fault/sanitized_by_tsan \
  $(TESTS)/fault/sanitized_by_lsan $(CLANG_LSAN) $(TESTS)/fault/plugin/slow_clock.so \
  $(patsubst tests/%.cc,$(TESTS)/%,$(wildcard tests/fault/*.cc)) \
  $(patsubst tests/%.cc,$(TESTS)/%.so,$(wildcard tests/fault/plugin/*.cc))
TORTURES := $(TESTS)/torture/torture $(TESTS)/torture/pool_under_tsan $(TESTS)/torture/pool_under_asan
TEST_SUPPORT := $(TESTS)/support/check_dump
BENCH_PROGRAMS := $(addprefix $(BUILD)/bench/,mixed_lifetime costs libjump_only.so)
TEST_PROGRAMS := $(UNIT_TESTS) $(PLAIN_TESTS) $(SPECIAL_TESTS) $(TORTURES) $(TEST_SUPPORT)
TEST_SCRIPTS := tests/torture/run tests/torture/run_pool tests/model/small.sh tests/differential/run tests/account/run tests/fault/run \
  $(wildcard tests/cli/*.sh) $(wildcard tests/experiments/*.sh) $(wildcard tests/program/*.sh)
SERVICE_SCRIPTS := $(filter-out %/lib.sh,$(wildcard tests/service/*.sh))
TEST_SCRIPTS := $(filter-out %/lib.sh,$(TEST_SCRIPTS)) $(SERVICE_SCRIPTS)

$(TESTS)/unit/statistics: tests/unit/statistics.c src/cli/ab/result/statistics.c src/cli/kit/util.c tests/r/statistics_values.h
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(COMPILE_TEST) -o $@ $< src/cli/ab/result/statistics.c src/cli/kit/util.c -lgsl -lgslcblas -lm $$(pkg-config --cflags --libs check)

$(TESTS)/unit/tool: tests/unit/tool.c src/cli/kit/util.c src/cli/system/procfs.c
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(COMPILE_TEST) -o $@ $^ $$(pkg-config --cflags --libs check)

$(TESTS)/unit/%: tests/unit/%.c $(BASE_SRC) $(POOL_SRC) $(EVIDENCE_SRC)
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(COMPILE_TEST) -o $@ $< $(BASE_SRC) $(POOL_SRC) src/evidence/retention.c $$(pkg-config --cflags --libs check)

$(TESTS)/%: tests/%.c tests/support/test.c tests/support/test.h $(wildcard src/base/*.h)
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(COMPILE_TEST) -o $@ $< tests/support/test.c -ldl -lpthread

$(TESTS)/fault/static_program: tests/fault/static_program.c tests/support/test.c
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(COMPILE_TEST) -static -o $@ $^

$(TESTS)/fault/sanitized_by_lsan_of_clang: tests/fault/sanitized_by_lsan.c
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)clang $(STD) -g -fno-builtin -fsanitize=leak -o $@ $<

$(TESTS)/fault/sanitized_by_%: SANITIZER = $(if $(findstring asan,$@),address,$(if $(findstring lsan,$@),leak,thread))
$(TESTS)/fault/sanitized_by_%: tests/fault/sanitized_by_%.c tests/support/test.c
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(COMPILE_TEST) -fsanitize=$(SANITIZER) -o $@ $^ -lpthread

$(TESTS)/support/test.o: tests/support/test.c tests/support/test.h $(wildcard src/base/*.h)
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(COMPILE_TEST) -c -o $@ $<

$(TESTS)/fault/%: tests/fault/%.cc tests/fault/plugin/new_and_delete.h $(TESTS)/support/test.o
	@mkdir -p $(@D)
	$(call say,CXX)
	$(Q)$(CXX) -std=c++17 -D_GNU_SOURCE $(WARNINGS_CXX) $(CXXFLAGS) -fno-builtin -fsized-deallocation -o $@ $< $(TESTS)/support/test.o -lpthread

$(TESTS)/fault/plugin/%.so: tests/fault/plugin/%.c
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(STD) $(CFLAGS) -fPIC -shared -o $@ $< -ldl -lpthread

$(TESTS)/fault/plugin/%.so: tests/fault/plugin/%.cc tests/fault/plugin/new_and_delete.h
	@mkdir -p $(@D)
	$(call say,CXX)
	$(Q)$(CXX) -std=c++17 -D_GNU_SOURCE $(WARNINGS_CXX) $(CXXFLAGS) -fno-builtin -fsized-deallocation -fPIC -shared -o $@ $<

$(TESTS)/support/check_dump: tests/support/check_dump.c
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(COMPILE_TEST) -o $@ $< -ljson-c

$(TESTS)/torture/torture: tests/torture/torture.c tests/support/test.c tests/support/allocator_libc.c
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(COMPILE_TEST) -o $@ $^ -lpthread

# Without a sanitizer, for machines that have none.
$(TESTS)/torture/pool: tests/torture/torture.c tests/support/test.c tests/support/allocator_pool.c $(POOL_SRC) $(BASE_SRC)
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(COMPILE_TEST) -o $@ $^ -lpthread

POOL_TORTURE := tests/torture/torture.c tests/support/test.c tests/support/allocator_pool.c $(POOL_SRC) $(BASE_SRC)
$(TESTS)/torture/pool_under_tsan: $(POOL_TORTURE)
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(COMPILE_TEST) -O1 -fsanitize=thread -o $@ $^ -lpthread

$(TESTS)/torture/pool_under_asan: $(POOL_TORTURE)
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(COMPILE_TEST) -O1 -fsanitize=address,undefined -fno-sanitize-recover=undefined -o $@ $^ -lpthread

.PHONY: dependencies-% check check-only
dependencies-%:
	@scripts/install-deps $*

check: dependencies-check
	@$(MAKE) --no-print-directory -j2 all $(TEST_PROGRAMS) $(BENCH_PROGRAMS)
	@$(MAKE) --no-print-directory check-only

# The tests alone, for those who have everything: what check runs, or make check-only T='tests/cli/dump.sh'.
T ?= $(UNIT_TESTS) $(TEST_SCRIPTS)
TEST_ENVIRONMENT = BUILD_DIR=$(abspath $(BUILD)) PINPOOL_LIB=$(abspath $(BUILD)/libpinpool.so) \
  PINPOOL_TOOL=$(abspath $(BUILD)/pinpool) CC='$(CC)' CXX='$(CXX)'
check-only: all $(TEST_PROGRAMS) $(BENCH_PROGRAMS)
	@$(TEST_ENVIRONMENT) tests/run $(T)

# The library and its tests built for aarch64 and run under qemu-user; the tool stays out. check_dump reads files,
# and is of this machine. No position-independent executables: in qemu there is hardly room for a heap behind
# one, and the C library's own answers differ then.
AARCH64 := $(BUILD)/aarch64
AARCH64_SYSROOT := $(abspath $(AARCH64)/sysroot)
AARCH64_VARIABLES = BUILD=$(AARCH64) CC=aarch64-linux-gnu-gcc CXX=aarch64-linux-gnu-g++ \
  CFLAGS='-O2 -g -fno-pie -no-pie' CXXFLAGS='-O2 -g -fno-pie -no-pie' \
  PKG_CONFIG_LIBDIR=$(AARCH64_SYSROOT)/usr/lib/aarch64-linux-gnu/pkgconfig PKG_CONFIG_SYSROOT_DIR=$(AARCH64_SYSROOT)
AARCH64_TESTS := $(addprefix tests/,aarch64/unit aarch64/large_pages differential/run account/run fault/run torture/run)
.PHONY: check-aarch64 check-aarch64-only
check-aarch64: dependencies-check-aarch64
	@scripts/aarch64-sysroot $(AARCH64_SYSROOT)
	@$(MAKE) --no-print-directory BUILD=$(AARCH64) $(AARCH64)/tests/support/check_dump
	@$(MAKE) --no-print-directory -j2 $(AARCH64_VARIABLES) aarch64-programs
	@$(MAKE) --no-print-directory check-aarch64-only

# The tests alone: make check-aarch64-only T=tests/fault/run. TEST_QEMU names another qemu than the system's.
check-aarch64-only: T = $(AARCH64_TESTS)
check-aarch64-only:
	@tests/aarch64/left-out >$(AARCH64)/tests/left-out
	@BUILD_DIR=$(abspath $(AARCH64)) TEST_SYSROOT=$(AARCH64_SYSROOT) TEST_LAUNCHER=$(CURDIR)/tests/aarch64/env \
	  TEST_LEFT_OUT=$(abspath $(AARCH64))/tests/left-out TEST_SECONDS=$${TEST_SECONDS:-900} TEST_PATIENCE=$${TEST_PATIENCE:-3} tests/run $(T)

.PHONY: aarch64-programs
aarch64-programs: $(BUILD)/libpinpool.so $(filter-out %/statistics %/tool,$(UNIT_TESTS)) $(PLAIN_TESTS) $(SPECIAL_TESTS) \
  $(TESTS)/torture/torture $(TESTS)/torture/pool

# All services of tests/service: make check skips those whose programs are large and not there.
.PHONY: check-services
check-services: dependencies-check-services
	@$(MAKE) --no-print-directory -j2 all $(TEST_SUPPORT)
	@SERVICES_REQUIRED=1 $(TEST_ENVIRONMENT) tests/run $(SERVICE_SCRIPTS)

# The lock-free protocol, every interleaving (minutes, up to 2 GiB; needs spin).
.PHONY: check-model
check-model:
	@tests/model/run

# The stored values of the statistics against R, which this installs.
.PHONY: check-r
check-r: dependencies-check-r
	@BUILD_DIR=$(abspath $(BUILD)) CC='$(CC)' tests/r/check

# make check-fresh ARGS='13': demo and check in a minimal Debian 12 and 13 below $(BUILD), as root.
.PHONY: check-fresh
check-fresh: dependencies-check-fresh
	@BUILD_DIR=$(abspath $(BUILD)) scripts/check-fresh $(ARGS)

# ---- demo and bench ------------------------------------------------------------------------------

$(BUILD)/bench/libjump_only.so: scripts/bench/jump_only.c
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(COMPILE_TEST) -fPIC -fno-plt -shared -o $@ $<

$(BUILD)/bench/%: scripts/bench/%.c scripts/bench/workload.c scripts/bench/workload.h $(wildcard src/base/*.h)
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(COMPILE_TEST) -o $@ $< scripts/bench/workload.c -lm -lpthread

# make bench ARGS='--rounds 20': the options of scripts/bench/bench or demo.
.PHONY: demo bench
demo bench: %: dependencies-%
	@$(MAKE) --no-print-directory -j2 all $(BENCH_PROGRAMS)
	@$(TEST_ENVIRONMENT) scripts/bench/$@ $(ARGS)

# make experiment-readfile ARGS='--long': one of scripts/experiments, with what it needs installed.
experiment-%: dependencies-experiments all
	@$(TEST_ENVIRONMENT) scripts/experiments/$*/run $(ARGS)

# ---- the house -----------------------------------------------------------------------------------

# tests/r/*.h is written by a script.
C_FILES := $(filter-out tests/r/%,$(shell find src preload scripts tests -name '*.[ch]' -o -name '*.cc'))
# What cppcheck can not know: cleanup attributes close files, die() does not return, json-c's loop macro.
CPPCHECK_SUPPRESS := $(addprefix --suppress=,missingIncludeSystem CastIntegerToAddressAtReturn resourceLeak memleak \
  nullPointerRedundantCheck ctunullpointer unknownMacro)
SHELL_FILES := $(shell grep -lE '^\#!.*bash' -r scripts tests man .ci 2>/dev/null) $(wildcard scripts/*.sh scripts/bench/*.sh scripts/experiments/*.sh) \
  tests/support/tap.sh tests/experiments/lib.sh

.PHONY: lint format install uninstall dist clean
lint: dependencies-lint
	clang-format --dry-run --Werror $(C_FILES)
	for file in $(LIB_SRC) $(CLI_SRC); do \
	  clang-tidy --quiet $$file -- $(STD) $(INCLUDES) $(DEFINES) 2>/dev/null || exit 1; done
	cppcheck --quiet --std=c11 --enable=warning,performance,portability --inline-suppr --error-exitcode=1 \
	  $(CPPCHECK_SUPPRESS) $(INCLUDES) $(DEFINES) -D__x86_64__ $(LIB_SRC) $(CLI_SRC)
	shellcheck -x $(SHELL_FILES)

format:
	clang-format -i $(C_FILES)

install: all
	$(INSTALL) -d $(DESTDIR)$(PREFIX)/lib $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/share/man/man1
	$(INSTALL) -m 755 -s $(BUILD)/libpinpool.so $(DESTDIR)$(PREFIX)/lib/libpinpool.so
	$(INSTALL) -m 755 -s $(BUILD)/pinpool $(DESTDIR)$(PREFIX)/bin/pinpool
	$(INSTALL) -d $(DESTDIR)$(PREFIX)/share/pinpool/scripts
	$(INSTALL) -m 755 scripts/mmap-lock $(DESTDIR)$(PREFIX)/share/pinpool/scripts
	$(INSTALL) -m 644 scripts/mmap-lock.bt scripts/lib.sh $(DESTDIR)$(PREFIX)/share/pinpool/scripts
	$(INSTALL) -m 644 $(BUILD)/pinpool.1 $(DESTDIR)$(PREFIX)/share/man/man1/pinpool.1

uninstall:
	rm -rf $(DESTDIR)$(PREFIX)/share/pinpool
	rm -f $(DESTDIR)$(PREFIX)/lib/libpinpool.so $(DESTDIR)$(PREFIX)/bin/pinpool $(DESTDIR)$(PREFIX)/share/man/man1/pinpool.1

dist:
	@mkdir -p $(BUILD)
	git archive --prefix=pinpool-$(VERSION)/ -o $(BUILD)/pinpool-$(VERSION).tar.gz HEAD

clean:
	rm -rf $(BUILD)

-include $(shell find $(BUILD)/lib $(BUILD)/cli -name "*.d" 2>/dev/null)
