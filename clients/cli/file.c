#include "clients/cli/file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { MAX_FILE = INT32_MAX };

enum rt_status cl_read_file(const char *path, struct rt_bytes *out, struct rt_error *err)
{
    FILE *f = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    if (!f)
        return rt_fail(err, RT_NOT_FOUND, "%s: %s", path, strerror(errno));
    char block[16384];
    size_t n;
    while ((n = fread(block, 1, sizeof block, f)) > 0 && !out->failed)
        rt_bytes_add(out, block, n);
    int e = ferror(f) ? errno : 0;
    if (f != stdin)
        fclose(f);
    if (e)
        return rt_fail(err, RT_UNAVAILABLE, "%s: %s", path, strerror(e));
    return out->failed ? rt_fail(err, RT_RESOURCE_EXHAUSTED, "%s: too large", path) : RT_OK;
}

enum rt_status cl_read_text(const char *path, struct rt_arena *arena, const char **out,
                            struct rt_error *err)
{
    struct rt_bytes bytes;
    rt_bytes_init(&bytes, MAX_FILE);
    enum rt_status st = cl_read_file(path, &bytes, err);
    if (!st && bytes.p && memchr(bytes.p, 0, bytes.n))
        st = rt_fail(err, RT_INVALID_ARGUMENT, "%s: not a text", path);
    if (!st && !(*out = rt_arena_strndup(arena, bytes.p ? bytes.p : "", bytes.n)))
        st = rt_fail_memory(err, path, bytes.n);
    rt_bytes_clear(&bytes);
    return st;
}
