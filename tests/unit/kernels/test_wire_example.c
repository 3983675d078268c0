#include "kernels/parsing/feature_map.h"
#include "kernels/parsing/wire_example.h"
#include "kernels/kernels.h"
#include "runtime/session/session.h"
#include "tests/support/graph_def.h"
#include "tests/support/test.h"

#define SPAN(text) rt_span_of(text, sizeof(text) - 1)

/* An Example with two entries: "f" with the floats 1 and 2, and "i" with the integer -1. */
#define FLOATS "\x12\x0a\x0a\x08\x00\x00\x80\x3f\x00\x00\x00\x40"
#define MINUS1 "\x1a\x0c\x0a\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
#define GOOD   "\x0a\x28\x0a\x11\x0a\x01\x66\x12\x0c" FLOATS "\x0a\x13\x0a\x01\x69\x12\x0e" MINUS1

static void entries_are_read_in_order(void **state)
{
    struct kn_example x = kn_example_of(SPAN(GOOD), NULL);
    struct rt_span name, feature;
    float f[2];
    int64_t i, n;
    (void)state;

    assert_int_equal(kn_example_next(&x, &name, &feature), 1);
    assert_true(rt_span_is(name, "f"));
    assert_int_equal(kn_feature_type(&feature), RT_F32);
    assert_true(kn_feature_floats(feature, f, 2, &n));
    assert_int_equal(n, 2);
    assert_float_equal(f[1], 2, 0);
    assert_int_equal(kn_example_next(&x, &name, &feature), 1);
    assert_true(rt_span_is(name, "i"));
    assert_int_equal(kn_feature_type(&feature), RT_I64);
    assert_true(kn_feature_ints(feature, &i, 1, &n));
    assert_int_equal(i, -1);
    assert_int_equal(kn_example_next(&x, &name, &feature), 0);
}

static void every_cut_of_an_example_is_survived(void **state)
{
    (void)state;
    for (size_t n = 0; n < sizeof GOOD; n++) {
        unsigned char *copy = malloc(n + 1); /* a sanitizer reports a read beyond `n + 1` bytes */
        assert_non_null(copy);
        memcpy(copy, GOOD, n);
        struct kn_example x = kn_example_of(rt_span_of(copy, n), NULL);
        struct rt_span name, feature;
        while (kn_example_next(&x, &name, &feature) > 0) {
            int64_t many;
            const enum rt_dtype t = kn_feature_type(&feature);
            if (t != RT_NO_DTYPE && t != RT_N_DTYPES)
                (void)kn_feature_list(NULL, t, feature, NULL, INT64_MAX, &many);
        }
        free(copy);
    }
}

static void more_than_fits_is_counted_and_not_written(void **state)
{
    float f[2] = {7, 7};
    int64_t v[2] = {7, 7}, n;
    (void)state;

    assert_true(kn_feature_floats(SPAN("\x0a\x0a\x08\x00\x00\x80\x3f\x00\x00\x00\x40"), f, 1, &n));
    assert_int_equal(n, 2);
    assert_float_equal(f[1], 7, 0);
    assert_true(kn_feature_ints(SPAN("\x05\x0a\x03\x01\x02\x03"), v, 1, &n));
    assert_int_equal(n, 3);
    assert_int_equal(v[1], 7);
    /* A packed list whose length exceeds the input is refused before memory of that length is
     * allocated. */
    assert_false(kn_feature_floats(SPAN("\x06\x0a\xff\xff\xff\x7f\x00"), NULL, INT64_MAX, &n));
}

static void *from_heap(void *arg, size_t bytes)
{
    (void)arg;
    return calloc(1, bytes);
}

static void names_are_found_wherever_they_stand(void **state)
{
    static const char *const names[] = {
        "", "a", "ab", "abc", "abcdefg", "a_name_of_17_byte", "a_name_of_17_bytf"};
    struct kn_feature_map *m = kn_feature_map_new(7, from_heap, NULL);
    (void)state;

    assert_non_null(m);
    for (int k = 0; k < 7; k++)
        m->feature[k] = (struct kn_feature){.name = rt_span_str(names[k]), .kind = KN_SPARSE};
    kn_feature_map_index(m);
    assert_false(m->has_twins);
    assert_int_equal(m->n_lists, 7);
    for (int k = 0; k < 7; k++)
        assert_int_equal(kn_feature_map_find(m, rt_span_str(names[k])), k);
    assert_int_equal(kn_feature_map_find(m, rt_span_str("b")), -1);
    assert_int_equal(kn_feature_map_find(m, rt_span_str("a_name_of_17_bytg")), -1);
    m->feature[3].name = rt_span_str("ab");
    kn_feature_map_index(m);
    assert_true(m->has_twins);
    free(m);
}

static void fixed_features_are_proved_row_by_row_and_lists_are_not(void **state)
{
    static const char *const fetches[] = {"op:3", "op:4", "op:0", "op:1"};
    const struct rt_shape examples = {.rank = 1, .dim = {-1}};
    struct rt_registry *ops = rt_registry_new();
    struct rt_library *library = NULL;
    struct rt_session *session = NULL;
    struct rt_error err = {0};
    struct rt_bytes graph;
    (void)state;

    rt_bytes_init(&graph, 1 << 20);
    gd_node(&graph, "examples", "Placeholder", "", "dtype=string shape=<-1>");
    gd_node(&graph, "names", "Const", "", "dtype=string value=string<0>:");
    gd_node(&graph, "sparse", "Const", "", "dtype=string value=string<>:s");
    gd_node(&graph, "fixed", "Const", "", "dtype=string value=string<>:f");
    gd_node(&graph, "padded", "Const", "", "dtype=string value=string<>:p");
    gd_node(&graph, "none", "Const", "", "dtype=float value=float<0>:");
    gd_node(&graph, "pad", "Const", "", "dtype=float value=float<>:0");
    gd_node(&graph, "op", "ParseExample", "examples names sparse fixed padded none pad",
            "Nsparse=1 Ndense=2 sparse_types=[float] Tdense=[float,float] dense_shapes=[<2>,<-1>]");
    assert_true(ops && kn_register(ops));
    assert_ok(rt_library_import(&library, gd_span(&graph), ops, &err), &err);
    const struct rt_session_options options = {.registry = ops};
    assert_ok(rt_session_new(&session, library, &options, &err), &err);
    for (int k = 0; k < 4; k++) {
        const char *feed = "examples";
        const struct rt_call_spec spec = {
            .feeds = &feed, .fetches = &fetches[k], .n_feeds = 1, .n_fetches = 1};
        struct rt_callable *c;
        assert_ok(rt_session_prepare(session, &spec, &c, &err), &err);
        assert_int_equal(rt_callable_is_rowwise(c, &examples, &err), k == 0);
    }
    rt_session_free(session);
    rt_registry_free(ops);
    rt_bytes_clear(&graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_are_read_in_order),
        cmocka_unit_test(every_cut_of_an_example_is_survived),
        cmocka_unit_test(more_than_fits_is_counted_and_not_written),
        cmocka_unit_test(names_are_found_wherever_they_stand),
        cmocka_unit_test(fixed_features_are_proved_row_by_row_and_lists_are_not),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
