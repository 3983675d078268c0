#include "kernels/string/text.h"

#include <ctype.h>

#include "runtime/base/siphash.h"

/* Returns true if the buffer may grow. Otherwise returns false and sets r->err to the reason. */
static bool may_grow(void *arg, size_t capacity, size_t wanted)
{
    struct rt_run *r = arg;
    return !rt_pool_charge(rt_run_pool(r), wanted - capacity, "a text", r->err);
}

void kn_text_begin(struct rt_bytes *b, struct rt_run *r)
{
    rt_bytes_init(b, SIZE_MAX / 4);
    b->may_grow = may_grow;
    b->grow_arg = r;
    r->err->code = RT_OK;
}

enum rt_status kn_text_failed(const struct rt_bytes *b)
{
    struct rt_run *r = b->grow_arg;
    return r->err->code ? r->err->code : rt_fail_memory(r->err, "a text", b->n);
}

void kn_text_end(struct rt_bytes *b)
{
    struct rt_run *r = b->grow_arg;
    rt_pool_discharge(rt_run_pool(r), b->capacity);
    rt_bytes_clear(b);
}

enum rt_status kn_text_add(struct rt_run *r, int64_t *left, struct rt_bytes *b, const void *p,
                           size_t n)
{
    if (!rt_bytes_reserve(b, n))
        return kn_text_failed(b);
    const enum rt_status st = kn_copy_text(r, left, b->p + b->n, p, n);
    b->n += n;
    b->p[b->n] = '\0';
    return st;
}

enum rt_status kn_set_text(struct rt_run *r, int64_t *left, struct rt_str *s, const char *p,
                           size_t n)
{
    char *to = rt_str_resize(s, rt_run_pool(r), n, r->err);

    return to ? kn_copy_text(r, left, to, p, n) : r->err->code;
}

const char *kn_find_space(struct rt_run *r, int64_t *left, const char *p, const char *end,
                          bool space)
{
    while (p < end) {
        const char *stop = p + kn_text_chunk((size_t)(end - p)), *from = p;
        while (p < stop && (isspace((unsigned char)*p) != 0) != space)
            p++;
        if (rt_run_spend(r, left, p - from))
            return NULL;
        if (p < stop)
            break;
    }
    return p;
}

enum rt_status kn_strip(struct rt_run *r, int64_t *left, const char **p, size_t *n)
{
    const char *end = *p + *n, *from = kn_find_space(r, left, *p, end, false);

    if (!from)
        return r->err->code;
    for (; end > from && isspace((unsigned char)end[-1]); end--)
        if ((end - from) % KN_TEXT_CHUNK == 0 && rt_run_spend(r, left, KN_TEXT_CHUNK))
            return r->err->code;
    *p = from;
    *n = (size_t)(end - from);
    return RT_OK;
}

/* Finds a string longer than KN_TEXT_CHUNK by a rolling hash (Rabin and Karp). memmem would first
 * read that entire string without a deadline check. */
static const char *find_long_text(struct rt_run *r, int64_t *left, const char *p, const char *end,
                                  struct rt_span what, enum rt_status *st)
{
    const uint64_t base = rt_siphash_key()[0] | 1;
    uint64_t want = 0, have = 0, top = 1; /* `top` is base to the power of what.n */
    struct kn_reader read = {.r = r, .left = left};

    if ((size_t)(end - p) < what.n)
        return NULL;
    for (size_t i = 0; i < what.n && !*st; i++) {
        want = want * base + what.p[i];
        have = have * base + (unsigned char)p[i];
        top *= base;
        if (i % KN_TEXT_CHUNK == 0)
            *st = rt_run_spend(r, left, 4 * KN_TEXT_CHUNK);
    }
    for (; !*st; p++) {
        if (have == want && kn_same_text(p, (const char *)what.p, what.n, &read))
            return p;
        if ((size_t)(end - p) == what.n)
            break;
        have = have * base + (unsigned char)p[what.n] - top * (unsigned char)p[0];
        if ((uintptr_t)p % KN_TEXT_CHUNK == 0 && !read.st)
            *st = rt_run_spend(r, left, 4 * KN_TEXT_CHUNK);
        *st = *st ? *st : read.st;
    }
    return NULL;
}

const char *kn_find_text(struct rt_run *r, int64_t *left, const char *p, const char *end,
                         struct rt_span what, enum rt_status *st)
{
    *st = RT_OK;
    if (what.n > KN_TEXT_CHUNK)
        return find_long_text(r, left, p, end, what, st);
    /* Neighbouring chunks overlap by what.n - 1 bytes. */
    for (; (size_t)(end - p) >= what.n; p += KN_TEXT_CHUNK) {
        const size_t n = (size_t)(end - p);
        const bool is_last = n - what.n < KN_TEXT_CHUNK;
        const size_t some = is_last ? n : KN_TEXT_CHUNK + what.n - 1;
        const char *q = memmem(p, some, what.p, what.n);
        if (!q)
            *st = rt_run_spend(r, left, (int64_t)some);
        if (q || *st || is_last)
            return q;
    }
    return NULL;
}

static void broadcast_steps(int64_t *step, const struct rt_tensor *out, const struct rt_tensor *in)
{
    int64_t stride[RT_MAX_RANK];
    const int missing = out->rank - in->rank;

    kn_strides(in->rank, in->dim, stride);
    for (int i = 0; i < out->rank; i++)
        step[i] = i < missing || in->dim[i - missing] == 1 ? 0 : stride[i - missing];
}

void kn_pairs_begin(struct kn_pairs *p, const struct rt_tensor *out, const struct rt_tensor *a,
                    const struct rt_tensor *b)
{
    *p = (struct kn_pairs){.rank = out->rank};
    memcpy(p->dim, out->dim, sizeof p->dim);
    broadcast_steps(p->step_a, out, a);
    broadcast_steps(p->step_b, out, b);
}

void kn_pairs_next(struct kn_pairs *p)
{
    for (int i = p->rank - 1; i >= 0; i--) {
        p->a += p->step_a[i];
        p->b += p->step_b[i];
        if (++p->at[i] < p->dim[i])
            return;
        p->a -= p->step_a[i] * p->dim[i];
        p->b -= p->step_b[i] * p->dim[i];
        p->at[i] = 0;
    }
}
