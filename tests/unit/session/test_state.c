/*
 * Tests state that one call writes and another call reads. An output must be the value that was
 * written last, even if the reader's plan or specialisation was made for an earlier state.
 *
 * Every reader of a kind of state runs against every writer of that kind, in each mode of
 * tests/support/state_graph.h. Reads and writes alternate.
 */
#include "tests/support/state_graph.h"

/* Returns a number that is derived from the number in the state and from the feed p. */
typedef double (*change_fn)(double state, double p);

struct writer {
    const char *kind, *target; /* name of a node to run, or of a tensor to fetch */
    change_fn after;           /* returns the number that the state holds after the run */
};
struct reader {
    const char *kind, *fetch;
    change_fn answer; /* returns the sum of the fetched elements */
};

static double add(double s, double p)
{
    return s + p;
}
static double subtract(double s, double p)
{
    return s - p;
}
static double set(double s, double p)
{
    (void)s;
    return p;
}
static double same(double s, double p)
{
    (void)p;
    return s;
}
static double twice(double s, double p)
{
    (void)p;
    return 2 * s;
}
static double product(double s, double p)
{
    return s * p;
}
static double rows_matmul(double s, double p)
{
    return 64 * s * p;
}
static double row(double s, double p)
{
    (void)p;
    return 64 * s;
}
static double one(double s, double p)
{
    (void)s;
    (void)p;
    return 1;
}
static double none(double s, double p)
{
    (void)s;
    (void)p;
    return 0;
}

static const struct writer writers[] = {
    {"ref", "r_add", add},
    {"ref", "r_subtract", subtract},
    {"ref", "r_set", set},
    {"ref", "r_by_switch", add}, /* which variable is referenced is known only during the run */
    {"ref", "r_by_merge", add},
    {"matrix", "w_add", add},
    {"matrix", "w_set", set},
    {"matrix", "w_scatter", add},
    {"count", "k_add", add},
    {"resource", "v_add", add},
    {"resource", "v_subtract", subtract},
    {"resource", "v_set", set},
    {"resource", "v_in_function", add},
    {"resource", "v_in_branch:0", add},
    {"resource", "v_in_loop:0", add},
    {"resource", "v_by_switch", add},
    {"resource", "v_by_case", add},
    {"resource", "v_swapped", add},
    {"rows", "u_scatter", add},
    {"length", "n_set", set},
    {"there", "d_destroy", none},
    {"there", "d_set", one},
    {"table", "t_insert", set},
    {"table", "t_import", set},
    {"table size", "t_insert_key", add},
};

static const struct reader readers[] = {
    {"ref", "r:0", same},
    {"ref", "r_identity:0", same},
    {"ref", "r_identities:0", same},
    {"ref", "r_sum:0", same},
    {"ref", "r_twice:0", twice},
    {"ref", "r_product:0", product},
    {"ref", "r_shaped:0", product},
    {"ref", "r_merged:0", same},
    {"ref", "r_switched:0", same},
    {"ref", "r_ref_switched:0", same},
    {"ref", "r_in_function:0", twice},
    {"ref", "r_in_branch:0", twice},
    {"ref", "r_in_loop:0", same},
    {"ref", "r_in_frame:0", same},
    {"ref", "r_ones:0", same},
    {"matrix", "w_product:0", rows_matmul},
    {"matrix", "w_biased:0", rows_matmul},
    {"matrix", "w_gathered:0", row},
    {"count", "k_filled:0", same},
    {"count", "k_in_place:0", same},
    {"resource", "v_read:0", same},
    {"resource", "v_sum:0", same},
    {"resource", "v_product:0", product},
    {"resource", "v_function:0", same},
    {"resource", "v_branch:0", same},
    {"resource", "v_loop:0", same},
    {"resource", "v_ones:0", same},
    {"rows", "u_gather:0", same},
    {"rows", "u_gather_nd:0", same},
    {"rows", "u_read:0", same},
    {"length", "n_shape:0", same},
    {"length", "n_shape_of_value:0", same},
    {"length", "n_size:0", same},
    {"length", "n_sum:0", same},
    {"there", "d_there:0", same},
    {"table", "t_find:0", same},
    {"table", "t_find_twice:0", twice},
    {"table", "t_values:0", same},
    {"table size", "t_size:0", same},
    {"table size", "t_keys:0", same},
};

/* A run that fetches one of these tensors adds p to a variable and then reads the variable. */
static const char *const both[] = {
    "r_add_read:0",     "r_by_switch_read:0", "v_add_read:0",     "v_in_function:0",
    "v_in_branch:0",    "v_by_switch_read:0", "v_in_loop_read:0", "v_by_case_read:0",
    "v_swapped_read:0", "u_scatter_read:0",
};

enum { N_WRITERS = sizeof writers / sizeof *writers, N_READERS = sizeof readers / sizeof *readers };

/* Interleaves a reader and a writer. Each character of `turns` stands for a run: r for a read and w
 * for a write. The feed changes from run to run, and there are more reads than are needed for
 * compilation. */
static void interleave(enum state_mode mode, const struct reader *r, const struct writer *w,
                       const char *turns)
{
    struct rt_session *s = state_open(mode);
    double state = strcmp(r->kind, "there") == 0 ? 1 : STATE_FIRST;
    struct rt_callable *write =
        mode == STATE_WRITER_COMES_LATE ? NULL : state_prepare(s, w->target);
    struct rt_callable *read = state_prepare(s, r->fetch);
    rt_session_serve(s);
    for (int at = 0; turns[at]; at++) {
        const double p = 1 + at % 3;
        if (turns[at] == 'w') {
            if (!write)
                write = state_prepare(s, w->target);
            state_run(write, p, w->target);
            state = w->after(state, p);
            continue;
        }
        const double expected = r->answer(state, p), got = state_run(read, p, r->fetch);
        if (got != expected)
            fail_msg("mode %d: %s, written by %s, after \"%.*s\": %g, not %g", (int)mode, r->fetch,
                     w->target, at, turns, got, expected);
    }
    rt_session_free(s);
}

static void a_reader_answers_what_another_call_has_written(void **state)
{
    static const char *const turns[] = {"rrrwrrwwrwrrrwrr", "wrrrwrr", "rwrwrwrw"};
    int n = 0;
    (void)state;
    for (int r = 0; r < N_READERS; r++)
        for (int w = 0; w < N_WRITERS; w++)
            for (int mode = 0; mode < STATE_N_MODES; mode++)
                for (int t = 0; t < 3; t++)
                    if (strcmp(readers[r].kind, writers[w].kind) == 0) {
                        interleave((enum state_mode)mode, &readers[r], &writers[w], turns[t]);
                        n++;
                    }
    assert_true(n > 900);
}

/* A plan that writes a variable may hold the variable's value as a constant until its first run. */
static void a_call_that_writes_reads_what_it_wrote(void **state)
{
    (void)state;
    for (size_t b = 0; b < sizeof both / sizeof *both; b++)
        for (int mode = 0; mode < STATE_N_MODES; mode++) {
            struct rt_session *s = state_open((enum state_mode)mode);
            struct rt_callable *c = NULL;
            double now = STATE_FIRST;
            if (mode != STATE_WRITER_COMES_LATE)
                c = state_prepare(s, both[b]);
            rt_session_serve(s);
            if (!c)
                c = state_prepare(s, both[b]);
            for (int k = 1; k < 6; k++) {
                const double got = state_run(c, k, both[b]);
                now += k;
                if (got != now)
                    fail_msg("mode %d: %s: %g, not %g", mode, both[b], got, now);
            }
            rt_session_free(s);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reader_answers_what_another_call_has_written),
        cmocka_unit_test(a_call_that_writes_reads_what_it_wrote),
    };
    return cmocka_run_group_tests(tests, state_set_up, state_tear_down);
}
