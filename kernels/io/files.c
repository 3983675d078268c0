/* ReadFile, WriteFile, MatchingFiles and ImmutableConst. runtime/files/file_access.h says which
 * files they may use.
 */
#include <unistd.h>

#include "kernels/entry.h"
#include "kernels/io/source.h"
#include "kernels/string/text.h"
#include "runtime/base/sort.h"
#include "runtime/core/copy.h"
#include "runtime/files/file_access.h"

static struct rt_span span_of(const struct rt_str *s)
{
    return rt_span_of(rt_str_data(s), s->n);
}

static enum rt_status check_scalar(struct rt_run *r, int k, const char *what)
{
    if (r->in[k].rank == 0)
        return RT_OK;
    return rt_fail(r->err, RT_INVALID_ARGUMENT, "%s tensor must be scalar, but had shape: %s", what,
                   KN_TEXT(&r->in[k]));
}

static enum rt_status read_run(struct rt_run *r)
{
    const enum rt_status st = check_scalar(r, 0, "Input filename");

    return st ? st : kn_read_whole(r, span_of(rt_strs(&r->in[0])), r->out[0].data);
}

static enum rt_status write_run(struct rt_run *r)
{
    const struct rt_check check = rt_run_as_check(r);
    enum rt_status st = check_scalar(r, 0, "Input filename");

    if (!st)
        st = check_scalar(r, 1, "Contents");
    if (st)
        return st;
    return rt_file_access_write(rt_run_file_access(r), span_of(rt_strs(&r->in[0])),
                                span_of(rt_strs(&r->in[1])), &check, r->err);
}

/* ---- MatchingFiles ---- */

/* The names that have been found, as elements of a buffer. */
struct names {
    struct rt_run *r;
    struct rt_bytes elems;
};

static struct rt_str *elems_of(const struct names *l, size_t *n)
{
    *n = l->elems.n / sizeof(struct rt_str);
    return (struct rt_str *)(void *)l->elems.p;
}

static enum rt_status add_name(void *arg, struct rt_span name, struct rt_error *err)
{
    struct names *l = arg;
    struct rt_str s = {0};

    if (!rt_str_set(&s, rt_run_pool(l->r), name.p, name.n, err))
        return err->code;
    rt_bytes_add(&l->elems, &s, sizeof s);
    if (!l->elems.failed)
        return RT_OK;
    rt_str_clear(&s);
    return kn_text_failed(&l->elems);
}

static int by_bytes(const void *a, const void *b)
{
    const struct rt_str *x = a, *y = b;
    const size_t n = x->n < y->n ? x->n : y->n;
    const int c = memcmp(rt_str_data(x), rt_str_data(y), n);

    return c ? c : (x->n > y->n) - (x->n < y->n);
}

static enum rt_status list_names(struct rt_run *r, struct names *l)
{
    const struct rt_check check = rt_run_as_check(r);
    const struct rt_file_finder finder = {add_name, l};
    enum rt_status st = RT_OK;
    size_t n;

    for (int64_t i = 0; i < rt_tensor_count(&r->in[0]) && !st; i++) {
        st = rt_run_check(r);
        if (!st)
            st = rt_file_access_match(rt_run_file_access(r), span_of(&rt_strs(&r->in[0])[i]),
                                      &finder, &check, r->err);
    }
    struct rt_str *s = elems_of(l, &n);
    if (!st && n > 1)
        st = rt_sort_alloc(s, n, sizeof *s, by_bytes, "the names of files", &check, r->err);
    return st;
}

static enum rt_status match_run(struct rt_run *r)
{
    struct names l = {.r = r};
    size_t n;

    if (r->in[0].rank > 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Input patterns tensor must be scalar or vector, but had shape: %s",
                       KN_TEXT(&r->in[0]));
    kn_text_begin(&l.elems, r);
    enum rt_status st = list_names(r, &l);
    struct rt_str *s = elems_of(&l, &n);
    struct rt_str *out = st ? NULL : rt_out(r, 0, 1, (const int64_t[]){(int64_t)n});
    if (out && n)
        memcpy(out, s, n * sizeof *s); /* moves the strings */
    else if (!st && !out)
        st = r->err->code;
    for (size_t i = 0; i < n && st; i++)
        rt_str_clear(&s[i]);
    kn_text_end(&l.elems);
    return st;
}

/* ---- ImmutableConst ---- */

static enum rt_status infer_constant(struct rt_infer *x)
{
    const struct rt_shape *s = rt_attr_shape(x->node, "shape");

    if (s)
        x->out[0].shape = *s;
    return RT_OK;
}

static enum rt_status check_constant(const struct rt_node *n, struct rt_error *err)
{
    const enum rt_dtype t = (enum rt_dtype)n->out_dtype[0];

    if (t == RT_STRING)
        return rt_fail(err, RT_UNIMPLEMENTED,
                       "Sorry, DT_STRING is not currently supported for ImmutableConstOp.");
    if (!rt_dtype_is_plain(t))
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Resource and variant dtypes are invalid for this op.");
    return RT_OK;
}

/* The file may change at any time, so its bytes are copied instead of mapped. */
static enum rt_status constant_run(struct rt_run *r)
{
    const struct rt_span name = rt_attr_str(r->node, "memory_region_name");
    struct stat info;
    int fd;

    if (!rt_attr_shape(r->node, "shape") || rt_attr_shape(r->node, "shape")->rank < 0 ||
        !r->out[0].data)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "ImmutableConst: the shape is not known");
    const size_t n = rt_tensor_bytes(&r->out[0]);
    enum rt_status st = rt_file_access_open(rt_run_file_access(r), name, &fd, &info, r->err);

    if (st)
        return st;
    if (info.st_size == 0)
        st = rt_fail(r->err, RT_INVALID_ARGUMENT, "%.*s; Invalid argument", (int)name.n,
                     (const char *)name.p);
    else if ((uint64_t)info.st_size < n)
        st = rt_fail(r->err, RT_INTERNAL,
                     "Readonly memory region has wrong length (%lld) when allocating %zu",
                     (long long)info.st_size, n);
    if (!st)
        st = kn_read_bytes(r, fd, name, r->out[0].data, n);
    close(fd);
    for (size_t i = 0; i < n && !st && kn_dtype(&r->out[0]) == RT_BOOL; i++) {
        unsigned char *b = r->out[0].data;
        b[i] = b[i] != 0; /* Kernels rely on bytes that are 0 or 1. */
        st = rt_run_tick(r, (int64_t)i);
    }
    return st;
}

const struct kn_entry kn_immutable_const = {
    .op = {.name = "ImmutableConst",
           .effect = RT_IO,
           .check = check_constant,
           .infer = infer_constant},
    .kernels = KN_KERNELS({.op = "ImmutableConst",
                           .device = "CPU",
                           .name = "immutable_const",
                           .type_attr = "dtype",
                           .run = constant_run}),
};

static enum rt_status infer_vector(struct rt_infer *x)
{
    x->out[0].shape.rank = 1;
    x->out[0].shape.dim[0] = -1;
    return RT_OK;
}

const struct kn_entry kn_read_file = {
    .op = {.name = "ReadFile", .effect = RT_IO, .infer = kn_infer_scalars},
    .kernels = KN_CPU("ReadFile", "read_file", 0, NULL, read_run),
};
const struct kn_entry kn_write_file = {
    .op = {.name = "WriteFile", .effect = RT_IO},
    .kernels = KN_CPU("WriteFile", "write_file", 0, NULL, write_run),
};
const struct kn_entry kn_matching_files = {
    .op = {.name = "MatchingFiles", .effect = RT_IO, .infer = infer_vector},
    .kernels = KN_CPU("MatchingFiles", "matching_files", 0, NULL, match_run),
};
