/*
 * NormalizeUTF8WithOffsetsMap and FindSourceOffsets of TensorFlow Text. The former also returns a
 * map for each string, as a variant: the edits that turn the string into its normal form. The
 * latter finds the offsets in the sources that belong to offsets in the normalised strings.
 */
#include "kernels/string/each.h"
#include "kernels/text/normal_edits.h"
#include "runtime/core/copy.h"
#include "runtime/core/object.h"
#include "runtime/core/pool.h"

enum { CHUNK = 1 << 14, COST = 64 /* work per byte, most of it for text that changes */ };

struct offsets_map {
    struct rt_object o;
    int64_t size; /* of the source in bytes */
    int64_t n;
    struct kn_normal_edit edit[];
};

static void offsets_map_free(struct rt_object *o)
{
    rt_pool_free(o);
}

static const struct rt_object_type offsets_map_type = {"map of offsets", offsets_map_free};

/* ---- NormalizeUTF8WithOffsetsMap ---- */

/* Sets element i of output 1 to a map of the edits. */
static enum rt_status set_map(struct rt_run *r, int64_t i, const struct rt_bytes *edits)
{
    struct offsets_map *m = rt_run_alloc(r, sizeof *m + edits->n);

    if (!m)
        return r->err->code;
    rt_object_init(&m->o, &offsets_map_type);
    m->size = (int64_t)rt_strs(&r->in[0])[i].n;
    m->n = (int64_t)(edits->n / sizeof *m->edit);
    if (edits->n)
        memcpy(m->edit, edits->p, edits->n);
    ((struct rt_object **)r->out[1].data)[i] = &m->o;
    return RT_OK;
}

/* Normalises string i. */
static enum rt_status normalize(struct rt_run *r, struct kn_edited *e, int64_t *left, int64_t i)
{
    const struct rt_str *s = &rt_strs(&r->in[0])[i];
    const unsigned char *begin = (const unsigned char *)rt_str_data(s), *before = begin;
    enum rt_status st = RT_OK;
    bool is_left = true;

    e->edits->n = 0;
    kn_edited_begin(e, begin, begin + s->n);
    for (; is_left && !st; before = e->p) {
        is_left = kn_edited_add(e, CHUNK);
        st = rt_run_spend(r, left, COST * (int64_t)(e->p - before));
    }
    kn_edited_end(e);
    const struct rt_bytes *const all[] = {e->out, e->edits, e->normal.out, &e->normal.segment};
    for (size_t k = 0; k < sizeof all / sizeof *all && !st; k++)
        st = all[k]->failed ? kn_text_failed(all[k]) : RT_OK;
    if (!st)
        st = kn_set_text(r, left, &((struct rt_str *)r->out[0].data)[i], e->out->p, e->out->n);
    if (!st)
        st = set_map(r, i, e->edits);
    return st ? st : kn_spend_string(r, left, e->edits->n);
}

static enum rt_status normalize_prepare(struct rt_prep *p, void **state)
{
    return kn_normal_prepare(p, state, "Offset not supported for this normalization form");
}

static enum rt_status normalize_run(struct rt_run *r)
{
    struct rt_bytes out, edits, run;
    const struct rt_check check = rt_run_as_check(r);
    struct kn_edited e = {.normal = {.form = *(const enum kn_normal_form *)r->state,
                                     .out = &run,
                                     .check = &check,
                                     .err = r->err},
                          .out = &out,
                          .edits = &edits};
    struct rt_bytes *const all[] = {&out, &edits, &run, &e.normal.segment};
    int64_t left = RT_WORK;
    enum rt_status st = RT_OK;

    for (int k = 0; k < 2 && !st; k++)
        st = kn_out(r, k, r->in[0].rank, r->in[0].dim) ? RT_OK : r->err->code;
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        kn_text_begin(all[k], r);
    for (int64_t i = 0; i < rt_tensor_count(&r->in[0]) && !st; i++)
        st = normalize(r, &e, &left, i);
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        kn_text_end(all[k]);
    return st;
}

const struct kn_entry kn_normalize_utf8_with_offsets_map = {
    .op = {.name = "NormalizeUTF8WithOffsetsMap", .infer = kn_infer_each, .rows = rt_rows_same},
    .kernels = KN_KERNELS({.op = "NormalizeUTF8WithOffsetsMap",
                           .device = "CPU",
                           .name = "normalize_utf8_with_offsets_map",
                           .prepare = normalize_prepare,
                           .run = normalize_run}),
};

/* ---- FindSourceOffsets ---- */

static int64_t clamp(int64_t x, int64_t most)
{
    return x < 0 ? 0 : x > most ? most : x;
}

/* Returns the offset in the source of an offset in the normalised string. An offset within an edit
 * belongs to the end of the edit's source. */
static int64_t source_of(const struct offsets_map *m, int64_t offset)
{
    int64_t least = 0, most = m->n;

    while (least < most) { /* finds the number of edits that begin at the offset or before it */
        const int64_t middle = least + (most - least) / 2;
        if (m->edit[middle].to.begin <= offset)
            least = middle + 1;
        else
            most = middle;
    }
    if (least == 0)
        return clamp(offset, m->size);
    const struct kn_byte_range from = m->edit[least - 1].from, to = m->edit[least - 1].to;
    if (offset == to.begin)
        return from.begin;
    if (offset < to.begin + to.n)
        return from.begin + from.n;
    const int64_t end = from.begin + from.n, beyond = offset - to.begin - to.n;
    return beyond < m->size - end ? end + beyond : m->size;
}

/* Checks the row splits. Rows without offsets have no map, as in TensorFlow Text, which reads and
 * writes beyond its tensors for splits that decrease or end too late. */
static enum rt_status check_splits(struct rt_run *r)
{
    const struct rt_tensor *splits = &r->in[2];
    const int64_t n_offsets = rt_tensor_count(&r->in[1]);
    int64_t n_rows = 0;

    for (int64_t i = 1; i < rt_tensor_count(splits); i++) {
        const int64_t begin = kn_int_at(splits, i - 1), end = kn_int_at(splits, i);
        if (begin < 0 || end < begin || end > n_offsets)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "FindSourceOffsets: a row from %lld to %lld, but there are %lld offsets",
                           (long long)begin, (long long)end, (long long)n_offsets);
        n_rows += begin < end;
        if (rt_run_tick(r, i))
            return r->err->code;
    }
    if (n_rows == rt_tensor_count(&r->in[0]))
        return RT_OK;
    return rt_fail(r->err, RT_INVALID_ARGUMENT,
                   "Input offset tensor dimension did not match the offset map dimension.");
}

static const struct offsets_map *map_at(struct rt_run *r, int64_t i)
{
    const struct rt_object *o = ((struct rt_object *const *)r->in[0].data)[i];

    if (o && o->type == &offsets_map_type)
        return (const struct offsets_map *)o;
    rt_fail(r->err, RT_INVALID_ARGUMENT, "FindSourceOffsets: element %lld is not a map of offsets",
            (long long)i);
    return NULL;
}

static enum rt_status find_run(struct rt_run *r)
{
    const struct rt_tensor *splits = &r->in[2];
    const int64_t n = rt_tensor_count(&r->in[1]), *from = r->in[1].data;
    int64_t at = 0, n_maps = 0, left = RT_WORK;
    enum rt_status st = check_splits(r);
    int64_t *to = st ? NULL : kn_out(r, 0, 1, &n);

    if (!to)
        return r->err->code;
    for (int64_t i = 1; i < rt_tensor_count(splits); i++) {
        const int64_t begin = kn_int_at(splits, i - 1), end = kn_int_at(splits, i);
        const struct offsets_map *m = begin < end ? map_at(r, n_maps++) : NULL;
        if (begin < end && !m)
            return r->err->code;
        for (int64_t k = begin; k < end; k++) {
            to[at++] = source_of(m, from[k]);
            if (rt_run_spend(r, &left, 32))
                return r->err->code;
        }
        if (rt_run_spend(r, &left, 8))
            return r->err->code;
    }
    return at < n ? kn_zero_chunks(r, to + at, (size_t)(n - at) * sizeof *to) : RT_OK;
}

const struct kn_entry kn_find_source_offsets = {
    .op = {.name = "FindSourceOffsets"},
    .kernels = KN_KERNELS({.op = "FindSourceOffsets",
                           .device = "CPU",
                           .name = "find_source_offsets",
                           .run = find_run}),
};
