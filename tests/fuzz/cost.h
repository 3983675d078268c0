/*
 * Limits of what one input of a fuzz target may cost. Every target defines fuzz_one and fuzz_cost;
 * cost.c has libFuzzer's entry point, measures each run and aborts if one takes more than:
 *
 *   bytes held at the peak, beyond those held before   free_bytes + growth * size
 *   CPU seconds of the process                         free_s + us_per_byte * size / 1e6
 *
 * An input that makes a parser quadratic, or few bytes that take gigabytes, are findings like a
 * crash. The times are those of the instrumented build (ASan, UBSan and coverage: some 20 times the
 * release build's). Data that stays, like the table of ops, is made before, by a run of no bytes.
 */
#ifndef TESTS_FUZZ_COST_H
#define TESTS_FUZZ_COST_H

#include <stddef.h>
#include <stdint.h>

struct fuzz_cost {
    size_t free_bytes, growth;
    double free_s, us_per_byte;
};

/*
 * Text and binary parsers: a structure of some hundred bytes for two bytes of input, and the memory
 * that every request has.
 */
#define FUZZ_PARSER                                                                                \
    {                                                                                              \
        .free_bytes = 4 << 20, .growth = 512, .free_s = 0.5, .us_per_byte = 100                    \
    }
/* Messages unpacked by protobuf-c: the limits of proto/unpack.h. */
#define FUZZ_MESSAGE                                                                               \
    {                                                                                              \
        .free_bytes = 32 << 20, .growth = 512, .free_s = 0.5, .us_per_byte = 100                   \
    }
/*
 * Graphs: the limits of runtime/files/import.c (64 MB and 64 for each byte, twice while a graph is
 * made), 256 MB of repeated constants, 300,000 nodes of plans.
 */
#define FUZZ_GRAPH                                                                                 \
    {                                                                                              \
        .free_bytes = 700 << 20, .growth = 512, .free_s = 20, .us_per_byte = 1000                  \
    }

extern const struct fuzz_cost fuzz_cost;
void fuzz_one(const uint8_t *data, size_t size);

#endif
