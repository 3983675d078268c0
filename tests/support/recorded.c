#include "tests/support/recorded.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "runtime/files/file.h"

enum { MOST_BYTES = 1 << 24 };

char *recorded_open(const char *path, struct recorded_reader *r)
{
    struct rt_error err = {0};
    char *packed = NULL, *data;
    size_t n = 0;
    int64_t length = 0;
    assert_ok(rt_file_read(path, MOST_BYTES, &packed, &n, &err), &err);
    assert_true(n > sizeof length);
    memcpy(&length, packed, sizeof length);
    assert_in_range(length, 1, MOST_BYTES);
    uLongf capacity = (uLongf)length;
    data = malloc((size_t)length);
    assert_non_null(data);
    assert_int_equal(uncompress((Bytef *)data, &capacity, (const Bytef *)packed + sizeof length,
                                (uLong)(n - sizeof length)),
                     Z_OK);
    assert_int_equal(capacity, length);
    free(packed);
    *r = (struct recorded_reader){data, data + length};
    return data;
}

const char *recorded_take(struct recorded_reader *r, size_t n)
{
    assert_true(n <= (size_t)(r->end - r->at));
    r->at += n;
    return r->at - n;
}

int32_t recorded_int(struct recorded_reader *r)
{
    int32_t v;
    memcpy(&v, recorded_take(r, sizeof v), sizeof v);
    return v;
}

int64_t recorded_long(struct recorded_reader *r)
{
    int64_t v;
    memcpy(&v, recorded_take(r, sizeof v), sizeof v);
    return v;
}

struct rt_span recorded_text(struct recorded_reader *r)
{
    const size_t n = (size_t)recorded_long(r);
    return rt_span_of(recorded_take(r, n), n);
}

char *recorded_name(struct recorded_reader *r)
{
    const struct rt_span s = recorded_text(r);
    char *name = calloc(1, s.n + 1);
    assert_non_null(name);
    memcpy(name, s.p, s.n);
    return name;
}

int recorded_each(const char *folder, const char *suffix,
                  void (*check)(void *arg, const char *name), void *arg)
{
    DIR *d = opendir(folder);
    int n = 0;
    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d));) {
        const size_t len = strlen(e->d_name), end = strlen(suffix);
        char name[256];
        if (len <= end || strcmp(e->d_name + len - end, suffix) != 0)
            continue;
        snprintf(name, sizeof name, "%.*s", (int)(len - end), e->d_name);
        check(arg, name);
        n++;
    }
    closedir(d);
    return n;
}
