#!/bin/bash
# SPDX-License-Identifier: MIT
#
# The C compiler: preprocessor, cc1, assembler and linker, each with its own processes, over a
# generated file. The object and the executable must be the same to the last bit.

# shellcheck source=tests/program/lib.sh
source "$(dirname "$0")/lib.sh"

program_begin compiler 'gcc -O2 over a generated file: the same object, to the last bit.' "$@"
program_needs gcc

FUNCTIONS=40
[ "$LONG" = 0 ] || FUNCTIONS=400

write_source() {
    awk -v functions="$FUNCTIONS" 'BEGIN {
        print "#include <math.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"
        for (i = 0; i < functions; i++) {
            print "struct record_" i " { char name[" i % 60 + 4 "]; double weight; struct record_" i " *next; };"
            print "static const char *const words_" i "[] = {"
            for (w = 0; w < 12; w++) printf "    \"word %d of function %d, which is here to fill the string table\",\n", w, i
            print "};"
            print "int function_" i "(int count, struct record_" i " *list)\n{\n    int total = " i ";"
            for (s = 0; s < 8; s++) {
                print "    for (int k" s " = 0; k" s " < count; k" s "++) {"
                print "        switch ((total + k" s ") % 7) {"
                for (c = 0; c < 6; c++) print "        case " c ": total += k" s " * " i * 7 + c * c " + (int)strlen(words_" i "[" (c + s) % 12 "]); break;"
                print "        default: for (struct record_" i " *r = list; r; r = r->next) total ^= (int)(r->weight * " s + 1 ".5) + r->name[0]; break;"
                print "        }\n    }"
            }
            print "    return total;\n}\n"
        }
        print "int main(void)\n{\n    long sum = 0;"
        for (i = 0; i < functions; i++) print "    sum += function_" i "(" i % 17 + 1 ", NULL);"
        print "    printf(\"%ld\\n\", sum);\n    return 0;\n}"
    }'
}

# as and ld are links to executables of longer names, which are what a dump shows.
prove_tool() {
    prove_exe "$(basename "$(readlink -f "$(command -v "$1")")")"
}

session() {
    write_source >generated.c
    step compile 120 gcc -std=c11 -O2 -Wall -c -o generated.o generated.c
    step link 60 gcc -o generated generated.o -lm
    md5sum generated.o generated
    step run 60 ./generated
    cat run.out
    prove_exe cc1 1000
    prove_tool as
    prove_tool ld
    prove compile 1
}

program_matrix session
