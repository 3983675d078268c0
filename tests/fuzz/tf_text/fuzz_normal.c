/* Normalises text to each form. The result must not depend on how many bytes are read at a time. It
 * must not change when it is normalised again, except to NFKC_Casefold: there, ignorable characters
 * are removed, so that malformed bytes around them may become a character. */
#include <stdlib.h>
#include <string.h>

#include "kernels/text/normal.h"
#include "tests/fuzz/cost.h"

const struct fuzz_cost fuzz_cost = FUZZ_PARSER;

static void normalize(struct rt_bytes *out, enum kn_normal_form form, const unsigned char *p,
                      size_t size, size_t step)
{
    struct kn_normal n = {.form = form, .out = out};
    const unsigned char *end = p + size;

    rt_bytes_init(out, SIZE_MAX / 4);
    rt_bytes_adds(out, ""); /* so that out->p is not NULL */
    rt_bytes_init(&n.segment, SIZE_MAX / 4);
    while (p < end && !out->failed && !n.segment.failed)
        kn_normal_add(&n, &p, end, step);
    kn_normal_end(&n);
    if (out->failed || n.segment.failed)
        abort();
    rt_bytes_clear(&n.segment);
}

static void expect_same(const struct rt_bytes *a, const struct rt_bytes *b)
{
    if (a->n != b->n || (a->n && memcmp(a->p, b->p, a->n) != 0))
        abort();
}

void fuzz_one(const uint8_t *data, size_t size)
{
    struct rt_bytes whole, parts, again;

    if (size < 1)
        return;
    const enum kn_normal_form form = (enum kn_normal_form)(data[0] % (KN_NFKC_CASEFOLD + 1));
    normalize(&whole, form, data + 1, size - 1, SIZE_MAX);
    normalize(&parts, form, data + 1, size - 1, 1 + data[0] / (KN_NFKC_CASEFOLD + 1));
    normalize(&again, form, (const unsigned char *)whole.p, whole.n, SIZE_MAX);
    expect_same(&whole, &parts);
    if (form != KN_NFKC_CASEFOLD)
        expect_same(&whole, &again);
    rt_bytes_clear(&whole);
    rt_bytes_clear(&parts);
    rt_bytes_clear(&again);
}
