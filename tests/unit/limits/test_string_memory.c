/* Tests that strings count against the memory that a run may hold. Ops that copy strings share the
 * bytes of the strings. Ops that make strings are refused at the limit. The memory of a run is
 * returned when the run ends. */
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>

#include "runtime/base/sanitizer.h"
#include "tests/support/op.h"

enum { MEGABYTE = 1 << 20, LIMIT = 100 * MEGABYTE, MANY = 3000 };

/* Returns a tensor whose elements share one string of `bytes` bytes, in which every 64th byte is a
 * space and all other bytes are 'a'. */
static struct rt_tensor shared_strings(int rank, const int64_t *dim, size_t bytes)
{
    struct rt_tensor t = op_tensor(RT_STRING, rank, dim, NULL);
    struct rt_str *s = t.data;
    char *p = rt_str_resize(&s[0], NULL, bytes, NULL);
    assert_non_null(p);
    for (size_t i = 0; i < bytes; i++)
        p[i] = i % 64 == 63 ? ' ' : 'a';
    for (int64_t i = 1; i < rt_tensor_count(&t); i++)
        rt_str_copy(&s[i], &s[0]);
    return t;
}

/* Returns a field of /proc/self/status in bytes. The field VmRSS is the current resident memory,
 * and VmHWM is its peak. */
static size_t resident(const char *field)
{
    char line[200];
    size_t kib = 0;
    FILE *f = fopen("/proc/self/status", "re");
    assert_non_null(f);
    while (fgets(line, sizeof line, f))
        if (strncmp(line, field, strlen(field)) == 0)
            kib = (size_t)strtoull(line + strlen(field) + 1, NULL, 10);
    fclose(f);
    return kib * 1024;
}

static void forget_peak(void)
{
    FILE *f = fopen("/proc/self/clear_refs", "we");
    if (f) {
        fputs("5", f);
        fclose(f);
    }
}

struct op_case {
    const char *op, *attrs;
    int n_out;
    enum rt_status status;
    struct rt_tensor in[4];
    int n_in;
};

static void one_case(struct op_case *k)
{
    struct op_call c = {.op = k->op,
                        .attrs = k->attrs,
                        .n_in = k->n_in,
                        .n_out = k->n_out,
                        .run_memory_limit = LIMIT};
    memcpy(c.in, k->in, sizeof k->in);
    forget_peak();
    const size_t before = resident("VmRSS");
    const enum rt_status st = op_run(&c);
    if (st != k->status)
        fail_msg("%s: status %d (%s), not %d", k->op, (int)st, rt_error_text(&c.err),
                 (int)k->status);
    if (st) { /* the error message states the number of bytes and the flag that sets the limit */
        assert_non_null(strstr(rt_error_text(&c.err), "bytes for"));
        assert_non_null(strstr(rt_error_text(&c.err), "(--run_memory_limit_bytes)"));
    }
    const size_t peak = resident("VmHWM");
    op_clear(&c);
    if (!RT_HAS_SANITIZER && peak > before + LIMIT + 32 * MEGABYTE)
        fail_msg("%s: resident memory rose by %zu bytes under a limit of %d", k->op, peak - before,
                 (int)LIMIT);
    if (!RT_HAS_SANITIZER && resident("VmRSS") > before + 32 * MEGABYTE)
        fail_msg("%s: %zu bytes stay behind", k->op, resident("VmRSS") - before);
}

#define DIM(...)  ((const int64_t[]){__VA_ARGS__})
#define ONE       shared_strings(0, NULL, MEGABYTE)
#define EACH      shared_strings(1, DIM(MANY), MEGABYTE)
#define SHORT     shared_strings(1, DIM(MANY), 10)
#define INTS(...) op_ints(sizeof((int32_t[]){__VA_ARGS__}) / 4, (int32_t[]){__VA_ARGS__})
#define CASE(...) one_case(&(struct op_case){__VA_ARGS__})
#define EXHAUSTED RT_RESOURCE_EXHAUSTED

static void what_copies_strings_shares_their_bytes(void **state)
{
    (void)state;
    CASE("BroadcastTo", "T=string Tidx=int32", 1, RT_OK, {ONE, INTS(MANY)}, 2);
    CASE("Fill", "T=string index_type=int32", 1, RT_OK, {INTS(MANY), ONE}, 2);
    CASE("Tile", "T=string Tmultiples=int32", 1, RT_OK,
         {shared_strings(1, DIM(1), MEGABYTE), INTS(MANY)}, 2);
    CASE("GatherV2", "Tparams=string Tindices=int32 Taxis=int32", 1, RT_OK,
         {EACH, INTS(0, 1, 2, 3, 4, 5, 0, 0), op_int(0)}, 3);
    CASE("Pack", "T=string N=2 axis=0", 1, RT_OK, {EACH, EACH}, 2);
    CASE("ConcatV2", "T=string Tidx=int32 N=2", 1, RT_OK, {EACH, EACH, op_int(0)}, 3);
    CASE("Transpose", "T=string Tperm=int32", 1, RT_OK,
         {shared_strings(2, DIM(30, 100), MEGABYTE), INTS(1, 0)}, 2);
    CASE("Slice", "T=string Index=int32", 1, RT_OK, {EACH, INTS(10), INTS(2000)}, 3);
    CASE("SelectV2", "T=string", 1, RT_OK, {op_tensor(RT_BOOL, 0, NULL, &(uint8_t){1}), EACH, ONE},
         3);
}

static void what_makes_strings_ends_at_the_limit(void **state)
{
    (void)state;
    CASE("Add", "T=string", 1, EXHAUSTED, {ONE, SHORT}, 2);
    CASE("StringJoin", "N=2 separator=''", 1, EXHAUSTED, {ONE, SHORT}, 2);
    CASE("ReduceJoin", "keep_dims=false separator=','", 1, EXHAUSTED, {EACH, INTS(0)}, 2);
    CASE("StringUpper", "encoding=''", 1, EXHAUSTED, {EACH}, 1);
    CASE("StringLower", "encoding='utf-8'", 1, EXHAUSTED, {EACH}, 1);
    CASE("StringStrip", "", 1, EXHAUSTED, {EACH}, 1);
    CASE("Substr", "T=int32 unit='BYTE'", 1, EXHAUSTED, {EACH, op_int(1), op_int(MEGABYTE)}, 3);
    CASE("EncodeBase64", "pad=false", 1, EXHAUSTED, {EACH}, 1);
    CASE("StringSplitV2", "maxsplit=1", 3, EXHAUSTED, {EACH, shared_strings(0, NULL, 0)}, 2);
    CASE("StringSplit", "skip_empty=true", 3, EXHAUSTED,
         {shared_strings(1, DIM(400), MEGABYTE), shared_strings(0, NULL, 0)}, 2);
    CASE("AsString", "T=string precision=-1 scientific=false shortest=false width=9000 fill='-'", 1,
         EXHAUSTED, {shared_strings(1, DIM(20000), 20)}, 1);
    CASE("StringNGrams",
         "separator='' ngram_widths=[2] left_pad='' right_pad='' pad_width=0 "
         "preserve_short_sequences=false Tsplits=int32",
         2, EXHAUSTED, {EACH, INTS(0, MANY)}, 2);
    CASE("StringFormat", "T=[string] template='{}' placeholder='{}' summarize=-1", 1, EXHAUSTED,
         {EACH}, 1);
}

static void what_is_given_up_on_the_way_is_not_counted(void **state)
{
    (void)state;
    /* The op makes 90 or 120 results of 1 MB, each joined from copies of a string of 10 KB. The
     * kernel computes the lengths before it allocates, so no intermediate memory counts against the
     * limit. */
    CASE("ReduceJoin", "keep_dims=false separator=''", 1, RT_OK,
         {shared_strings(2, DIM(90, 100), 10000), INTS(1)}, 2);
    CASE("ReduceJoin", "keep_dims=false separator=''", 1, EXHAUSTED,
         {shared_strings(2, DIM(120, 100), 10000), INTS(1)}, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_copies_strings_shares_their_bytes),
        cmocka_unit_test(what_makes_strings_ends_at_the_limit),
        cmocka_unit_test(what_is_given_up_on_the_way_is_not_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
