/*
 * Runs every signature of the project's own models at batch sizes that change and recur.
 * Specialised runs must give the same bits as runs node by node, and fused runs must give nearly
 * the same numbers.
 */
#include "tests/support/test.h"

#include <math.h>

#include "runtime/files/saved_model.h"
#include "tests/support/registry.h"

enum { MOST = 8 };

static struct rt_error err;
static uint32_t seed;

static const struct rt_tuning plain = {.no_fusion = true,
                                       .no_winograd = true,
                                       .no_autotune = true,
                                       .no_specialise = true},
                              compiled = {.no_fusion = true,
                                          .no_winograd = true,
                                          .no_autotune = true},
                              fused = {.no_specialise = true}, all = {.no_fusion = false};

static struct rt_model *load(const char *dir, const struct rt_tuning *tuning)
{
    struct rt_model *m = NULL;
    const struct rt_model_options options = {
        .session = {.registry = test_registry, .tuning = *tuning, .compiles_inline = true},
        .allow_unsupported_signatures = true,
        .warm_up = true};
    assert_ok(rt_model_load(&m, dir, &options, &err), &err);
    return m;
}

/* Makes the tensor for an input of a model. Returns false for types other than float, for which the
 * test has no values. */
static bool make_feed(const struct rt_tensor_spec *in, int64_t batch, struct rt_tensor *t)
{
    int64_t dim[RT_MAX_RANK];
    const int rank = in->shape.rank < 0 ? 1 : in->shape.rank;
    for (int d = 0; d < rank; d++)
        dim[d] = in->shape.rank < 0 || (d == 0 && in->shape.dim[0] < 0) ? batch
                 : in->shape.dim[d] < 0                                 ? 4
                                                                        : in->shape.dim[d];
    if (in->dtype != RT_F32)
        return false;
    assert_ok(rt_tensor_new(t, NULL, RT_F32, rank, dim, &err), &err);
    for (int64_t i = 0; i < rt_tensor_count(t); i++) {
        seed = seed * 1664525 + 1013904223;
        ((float *)t->data)[i] = rank == 0 ? 1 : (float)(seed >> 8) / (1 << 24);
    }
    return true;
}

static void compare(const char *what, const struct rt_tensor *want, const struct rt_tensor *got,
                    bool bits)
{
    double largest = 0, difference = 0;
    assert_int_equal(want->dtype, got->dtype);
    assert_int_equal(want->rank, got->rank);
    assert_memory_equal(want->dim, got->dim, (size_t)want->rank * sizeof *want->dim);
    if (want->dtype == RT_STRING) {
        for (int64_t i = 0; i < rt_tensor_count(want); i++)
            assert_string_equal(rt_str_data(&rt_strs(want)[i]), rt_str_data(&rt_strs(got)[i]));
        return;
    }
    if (bits || want->dtype != RT_F32) {
        if (memcmp(want->data, got->data, rt_tensor_bytes(want)) != 0)
            fail_msg("%s: not the bits that it is node by node", what);
        return;
    }
    for (int64_t i = 0; i < rt_tensor_count(want); i++) {
        const double a = (double)((float *)want->data)[i], b = (double)((float *)got->data)[i];
        largest = fmax(largest, fabs(a));
        difference = fmax(difference, fabs(a - b));
    }
    if (!(difference <= 1e-5 * largest))
        fail_msg("%s: differs by %g, the largest is %g", what, difference, largest);
}

static void check_run(const char *what, const struct rt_model_signature *a,
                      const struct rt_model_signature *b, const struct rt_tensor *in, bool bits)
{
    const int n = a->def->n_outputs;
    struct rt_tensor want[MOST], got[MOST];
    assert_true(n <= MOST);
    assert_ok(rt_callable_run(a->call, in, want, NULL, &err), &err);
    assert_ok(rt_callable_run(b->call, in, got, NULL, &err), &err);
    for (int k = 0; k < n; k++) {
        compare(what, &want[k], &got[k], bits);
        rt_tensor_clear(&want[k]);
        rt_tensor_clear(&got[k]);
    }
}

static void check_signature(const char *what, const struct rt_model_signature *a,
                            const struct rt_model_signature *b, bool bits)
{
    static const int64_t batches[] = {1, 3, 1, 7, 3};
    assert_true(a->def->n_inputs <= MOST);
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
        struct rt_tensor in[MOST] = {0};
        bool made = true;
        seed = 5;
        for (int k = 0; k < a->def->n_inputs && made; k++)
            made = make_feed(&a->def->inputs[k], batches[i], &in[k]);
        if (made)
            check_run(what, a, b, in, bits);
        for (int k = 0; k < a->def->n_inputs; k++)
            rt_tensor_clear(&in[k]);
    }
}

static void every_model_answers_the_same_in_both_tiers(void **state)
{
    (void)state;
    static const char *const dirs[] = {
        "models/digits/1", "models/half_plus_two/1", "tests/goldens/classifier/1",
        "tests/goldens/models/mnist_cnn/1", "tests/goldens/models/mnist_softmax/1"};
    static const struct {
        const char *name;
        const struct rt_tuning *tuning;
        bool bits;
    } ways[] = {{"compiled", &compiled, true}, {"fused", &fused, false}, {"all", &all, false}};
    for (size_t d = 0; d < sizeof dirs / sizeof *dirs; d++) {
        struct rt_model *one = load(dirs[d], &plain);
        for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
            struct rt_model *other = load(dirs[d], ways[w].tuning);
            struct rt_session_stats stats;
            for (int i = 0; i < one->n_signatures; i++) {
                const struct rt_model_signature *s = &one->signatures[i];
                char what[200];
                snprintf(what, sizeof what, "%s %s, %s", dirs[d], s->def->name, ways[w].name);
                if (s->call && !s->writes)
                    check_signature(what, s, rt_model_signature(other, s->def->name), ways[w].bits);
            }
            rt_session_stats(other->session, &stats);
            assert_true(ways[w].tuning->no_specialise == (stats.n_specialisations == 0));
            rt_model_free(other);
        }
        rt_model_free(one);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_model_answers_the_same_in_both_tiers),
    };
    return cmocka_run_group_tests(tests, test_registry_make, test_registry_drop);
}
