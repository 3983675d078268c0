/*
 * Reads the files that scripts of tests/conformance record with TensorFlow. A file holds the length
 * of its contents (int64) and the contents, compressed with zlib. In the contents, numbers are
 * little-endian, and a string is preceded by its length (int64). Malformed contents fail the test.
 */
#ifndef TESTS_SUPPORT_RECORDED_H
#define TESTS_SUPPORT_RECORDED_H

#include "tests/support/test.h"

#include "runtime/base/span.h"

struct recorded_reader {
    const char *at, *end;
};

/* Opens a file and returns its contents, which the caller frees. *r is set to read the contents
 * from the beginning. */
char *recorded_open(const char *path, struct recorded_reader *r);
const char *recorded_take(struct recorded_reader *r, size_t n);
int32_t recorded_int(struct recorded_reader *r);
int64_t recorded_long(struct recorded_reader *r);
struct rt_span recorded_text(struct recorded_reader *r);
/* Reads a string and returns a copy, which the caller frees. */
char *recorded_name(struct recorded_reader *r);

/* For each file in the folder with a name that ends in the suffix, calls `check` with the name
 * without the suffix. Returns the number of these files. */
int recorded_each(const char *folder, const char *suffix,
                  void (*check)(void *arg, const char *name), void *arg);

#endif
