/* Tests for kernels/text/sentencepiece_model.h: the memory of a model, and the end of its making.
 */
#include "kernels/text/sentencepiece_model.h"

#include <stdlib.h>

#include "runtime/core/pool.h"
#include "tests/support/test.h"

enum { PIECE = 30 << 20, LIMIT = 120 << 20 };

/* A check that fails at its last call. */
struct countdown {
    int n_calls, last;
};

static enum rt_status count_down(void *arg, struct rt_error *err)
{
    struct countdown *c = arg;

    return ++c->n_calls == c->last ? rt_fail(err, RT_CANCELLED, "cancelled") : RT_OK;
}

static unsigned char *put_varint(unsigned char *p, size_t n)
{
    for (; n >= 0x80; n >>= 7)
        *p++ = (unsigned char)(n | 0x80);
    *p++ = (unsigned char)n;
    return p;
}

/* Returns a ModelProto with the unknown piece and a piece of n bytes, which the caller frees. */
static struct rt_span make_proto(size_t n)
{
    static const unsigned char unknown[] = {0x0a, 0x07, 0x0a, 0x03, '<', '?', '>', 0x18, 0x02};
    unsigned char *bytes = malloc(n + 64), *p = bytes, head[16], *end = head;

    assert_non_null(bytes);
    memcpy(p, unknown, sizeof unknown);
    p += sizeof unknown;
    *end++ = 0x0a;
    end = put_varint(end, n);
    *p++ = 0x0a;
    p = put_varint(p, (size_t)(end - head) + n);
    memcpy(p, head, (size_t)(end - head));
    p += end - head;
    memset(p, 'a', n);
    return rt_span_of(bytes, (size_t)(p - bytes) + n);
}

/* Makes a model with a piece of n bytes. Returns the status, and checks that the pool counts the
 * model's memory until the model is closed. */
static enum rt_status open_model(size_t n, size_t limit, struct countdown *c, struct rt_error *err)
{
    const struct rt_check check = {count_down, c};
    const struct rt_make make = {
        .pool = rt_pool_new_plain(limit, "--limit"), .check = &check, .err = err};
    const struct rt_span bytes = make_proto(n);
    struct kn_sp_model m;

    assert_non_null(make.pool);
    const enum rt_status st = kn_sp_open(&make, bytes, "tokenizer", &m);
    free((void *)(uintptr_t)bytes.p);
    if (!st) {
        /* the bytes, and a unit for each node of the trie */
        assert_true(rt_pool_in_use(make.pool) >= n + 4 * n);
        assert_true(rt_pool_in_use(make.pool) <= 6 * n + (1 << 16));
        kn_sp_close(&m);
    }
    assert_int_equal(rt_pool_in_use(make.pool), 0);
    rt_pool_unref(make.pool);
    return st;
}

static void a_model_counts_with_its_trie(void **state)
{
    struct countdown c = {.last = -1};
    struct rt_error err = {0};

    (void)state;
    assert_int_equal(open_model(1 << 20, LIMIT, &c, &err), RT_OK);
    assert_int_equal(open_model(PIECE, LIMIT, &c, &err), RT_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(err.msg, "--limit"));
}

/* The check is called at least once for each 16,384 nodes of the trie, and ends the work wherever
 * it fails. */
static void a_check_ends_the_making(void **state)
{
    struct countdown all = {.last = -1};
    struct rt_error err = {0};

    (void)state;
    assert_int_equal(open_model(1 << 20, LIMIT, &all, &err), RT_OK);
    assert_true(all.n_calls > 64);
    for (int last = 1; last <= all.n_calls; last += 5) {
        struct countdown c = {.last = last};
        assert_int_equal(open_model(1 << 20, LIMIT, &c, &err), RT_CANCELLED);
        assert_int_equal(c.n_calls, last);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_counts_with_its_trie),
        cmocka_unit_test(a_check_ends_the_making),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
