/*
 * Tests the description of a node (runtime/api/describe.h): the number of its arithmetic
 * operations, the number of bytes that it reads and writes, and the name of its epilogue.
 */
#include <string.h>

#include "runtime/api/describe.h"
#include "tests/support/registry.h"
#include "tests/support/test.h"

static struct rt_trace_output of(enum rt_dtype t, int rank, int64_t a, int64_t b, int64_t c,
                                 int64_t d)
{
    return (struct rt_trace_output){t, {.rank = rank, .dim = {a, b, c, d}}};
}

static struct rt_node node_of(const char *op)
{
    return (struct rt_node){.schema = rt_schema_find(op), .op = rt_registry_op(test_registry, op)};
}

static void the_arithmetic_of_a_convolution_counts_all_sums(void **state)
{
    (void)state;
    const struct rt_node conv = node_of("Conv2D");
    const struct rt_trace_output in[] = {of(RT_F32, 4, 2, 9, 9, 8), of(RT_F32, 4, 3, 3, 4, 6)};
    const struct rt_trace_output out =
        /* The convolution has two groups, so each filter reads 4 of the 8 channels. */
        of(RT_F32, 4, 2, 7, 7, 6);
    assert_true(rt_node_flops(&conv, in, 2, &out, 1) == 2.0 * (2 * 7 * 7 * 6) * (3 * 3 * 4));
    const struct rt_node depthwise = node_of("DepthwiseConv2dNative");
    const struct rt_trace_output wide[] = {of(RT_F32, 4, 2, 9, 9, 8), of(RT_F32, 4, 3, 3, 8, 1)};
    const struct rt_trace_output deep = of(RT_F32, 4, 2, 9, 9, 8);
    assert_true(rt_node_flops(&depthwise, wide, 2, &deep, 1) == 2.0 * (2 * 9 * 9 * 8) * 9);
    const struct rt_node back = node_of("Conv2DBackpropInput");
    const struct rt_trace_output grad[] = {of(RT_I32, 1, 4, 0, 0, 0), of(RT_F32, 4, 3, 3, 4, 6),
                                           of(RT_F32, 4, 1, 5, 5, 6)};
    const struct rt_trace_output image = of(RT_F32, 4, 1, 10, 10, 4);
    assert_true(rt_node_flops(&back, grad, 3, &image, 1) == 2.0 * (5 * 5 * 6) * (3 * 3 * 4));
}

static void the_arithmetic_of_a_matmul_is_along_the_side_that_is_summed(void **state)
{
    (void)state;
    struct rt_attr attr[8] = {0};
    struct rt_node product = node_of("MatMul");
    product.attr = attr;
    attr[rt_schema_attr(product.schema, "transpose_a")].type = RT_ATTR_BOOL;
    const struct rt_trace_output in[] = {of(RT_F32, 2, 5, 7, 0, 0), of(RT_F32, 2, 7, 3, 0, 0)};
    const struct rt_trace_output out = of(RT_F32, 2, 5, 3, 0, 0), other = of(RT_F32, 2, 7, 3, 0, 0);
    assert_true(rt_node_flops(&product, in, 2, &out, 1) == 2.0 * 5 * 3 * 7);
    attr[rt_schema_attr(product.schema, "transpose_a")].v.b = true;
    assert_true(rt_node_flops(&product, in, 2, &other, 1) == 2.0 * 7 * 3 * 5);
}

static void what_is_not_known_is_no_arithmetic(void **state)
{
    (void)state;
    const struct rt_node conv = node_of("Conv2D"), relu = node_of("Relu");
    const struct rt_trace_output flat[] = {of(RT_F32, 1, 4, 0, 0, 0), of(RT_F32, 0, 0, 0, 0, 0)};
    assert_true(rt_node_flops(&conv, flat, 2, flat, 1) == 0);
    assert_true(rt_node_flops(&conv, flat, 1, flat, 1) == 0);
    assert_true(rt_node_flops(&relu, flat, 1, flat, 1) == 0);
    assert_true(rt_node_flops(NULL, flat, 2, flat, 1) == 0);
    const struct rt_trace_output text = of(RT_STRING, 1, 4, 0, 0, 0),
                                 five = of(RT_F64, 2, 5, 1, 0, 0), any = of(RT_F32, -1, 0, 0, 0, 0);
    assert_int_equal(rt_trace_bytes(&text), 0);
    assert_int_equal(rt_trace_bytes(&five), 40);
    assert_int_equal(rt_trace_bytes(&any), 0);
}

static void of_a_table_the_rows_that_are_taken_are_read(void **state)
{
    (void)state;
    const struct rt_node gather = node_of("GatherV2"), add = node_of("AddV2");
    const struct rt_trace_output in[] = {of(RT_F32, 2, 100000, 32, 0, 0),
                                         of(RT_I32, 1, 26, 0, 0, 0)},
                                 out = of(RT_F32, 2, 26, 32, 0, 0);
    assert_true(rt_node_bytes(&gather, in, 2, &out, 1) == 2 * 26 * 32 * 4 + 26 * 4);
    assert_true(rt_node_bytes(&add, in, 1, &out, 1) == (100000 + 26) * 32 * 4);
    const struct rt_op view = {.is_view = true};
    const struct rt_node reshape = {.schema = rt_schema_find("Reshape"), .op = &view};
    assert_true(rt_node_bytes(&reshape, in, 2, &out, 1) == 0);
}

static void what_was_fused_is_named(void **state)
{
    (void)state;
    struct rt_arena *arena = rt_arena_new(SIZE_MAX);
    const struct rt_named_attr tail = {
        .name = "_tail", .value = {.type = RT_ATTR_STRING, .n = 8, .v.s = "add relu"}};
    const struct rt_node conv = {.schema = rt_schema_find("Conv2D"), .extra = &tail, .n_extra = 1};
    assert_string_equal(rt_node_fused(&conv, arena), "add relu");
    const struct rt_node plain = {.schema = rt_schema_find("Conv2D")};
    assert_string_equal(rt_node_fused(&plain, arena), "");
    assert_string_equal(rt_node_fused(NULL, arena), "");
    rt_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_arithmetic_of_a_convolution_counts_all_sums),
        cmocka_unit_test(the_arithmetic_of_a_matmul_is_along_the_side_that_is_summed),
        cmocka_unit_test(what_is_not_known_is_no_arithmetic),
        cmocka_unit_test(of_a_table_the_rows_that_are_taken_are_read),
        cmocka_unit_test(what_was_fused_is_named),
    };
    return cmocka_run_group_tests(tests, test_registry_make, test_registry_drop);
}
