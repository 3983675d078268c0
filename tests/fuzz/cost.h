/*
 * Limits on the cost of one input of a fuzz target. Every target defines fuzz_one and fuzz_cost;
 * cost.c has libFuzzer's entry point, measures each run and aborts if a run exceeds a limit:
 *
 *   increase of the allocated bytes, at the peak   free_bytes + growth * size
 *   CPU seconds of the process                     free_s + us_per_byte * size / 1e6
 *
 * An input on which a parser takes quadratic time, or a short input that makes it allocate
 * gigabytes, is reported like a crash. The times are those of the instrumented build (ASan, UBSan
 * and coverage), which is about 20 times slower than the release build. A first run on an empty
 * input allocates the data that persists, such as the table of ops.
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
 * Cost limits for text and binary parsers. A parser may make a structure of several hundred bytes
 * from two bytes of input, in addition to the memory that every request uses.
 */
#define FUZZ_PARSER                                                                                \
    {                                                                                              \
        .free_bytes = 4 << 20, .growth = 512, .free_s = 0.5, .us_per_byte = 100                    \
    }
/* Cost limits for messages that protobuf-c unpacks, derived from the limits in proto/unpack.h. */
#define FUZZ_MESSAGE                                                                               \
    {                                                                                              \
        .free_bytes = 32 << 20, .growth = 512, .free_s = 0.5, .us_per_byte = 100                   \
    }
/*
 * Cost limits for graphs. runtime/files/import.c permits a graph to take 64 MB of memory plus 64
 * bytes per byte of input. Two copies of the graph exist while it is made. Repeated constants may
 * take 256 MB, and plans may have 300,000 nodes.
 */
#define FUZZ_GRAPH                                                                                 \
    {                                                                                              \
        .free_bytes = 700 << 20, .growth = 512, .free_s = 20, .us_per_byte = 1000                  \
    }

extern const struct fuzz_cost fuzz_cost;
void fuzz_one(const uint8_t *data, size_t size);

#endif
