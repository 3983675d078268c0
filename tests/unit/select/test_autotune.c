/*
 * Tests autotuning (runtime/select/autotune.h). Kernels are chosen by their times, and the
 * choices are saved in a file. The tests inject the times, so that no test depends on speed.
 */
#include "tests/support/test.h"

#include <math.h>
#include <pthread.h>
#include <sys/stat.h>

#include "kernels/kernels.h"
#include "runtime/select/autotune.h"
#include "runtime/base/log.h"
#include "runtime/files/file.h"
#include "tests/support/folder.h"
#include "tests/support/graph_def.h"
#include "tests/support/graph_session.h"

enum { CI = 32, CO = 48, MOST_SESSIONS = 4 };

struct fixture {
    struct rt_registry *all;
    struct rt_autotune *a;
    struct rt_tuning tuning;
    const char *fastest; /* name of the kernel that takes 1 ms per row in the injected times */
    double others;       /* milliseconds per row that every kernel other than `fastest` takes */
    int slow;            /* number of initial runs in which `fastest` takes 10 ms */
    int timed;
    float first_weight;
    struct rt_error err;
};

static int64_t clock_says(void *arg, const struct rt_kernel *k, int64_t batch)
{
    struct fixture *x = arg;
    x->timed++;
    if (strcmp(k->name, x->fastest) != 0)
        return (int64_t)(1e6 * x->others) * batch;
    return (x->slow-- > 0 ? 10000000 : 1000000) * batch;
}

static int set_up(void **state)
{
    struct fixture *x = calloc(1, sizeof *x);
    atomic_store(&rt_log_level, -1);
    x->all = rt_registry_new();
    if (!x->all || !kn_register(x->all) || !(x->a = rt_autotune_new(NULL)))
        return -1;
    x->first_weight = 0.5f;
    x->others = 5;
    rt_autotune_inject(x->a, clock_says, x);
    *state = x;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *x = *state;
    rt_autotune_free(x->a);
    rt_registry_free(x->all);
    free(x);
    return 0;
}

static float draw(uint32_t *seed)
{
    *seed = *seed * 1664525 + 1013904223;
    return (float)(*seed >> 8) / (1 << 23) - 1;
}

/* Opens a session on a 3x3 convolution with a constant filter, and prepares its callable from "x"
 * to "y". */
static struct rt_session *session(struct fixture *x, struct rt_callable **c)
{
    const struct rt_session_options options = {
        .registry = x->all, .tuning = x->tuning, .autotune = x->a};
    struct rt_bytes g, value;
    uint32_t seed = 3;

    rt_bytes_init(&g, 1 << 24);
    rt_bytes_init(&value, 1 << 24);
    rt_bytes_addf(&value, "dtype=float value=float<3,3,%d,%d>:%.9g", CI, CO,
                  (double)x->first_weight);
    for (int i = 1; i < 9 * CI * CO; i++)
        rt_bytes_addf(&value, ",%.9g", (double)draw(&seed));
    gd_node(&g, "x", "Placeholder", "", "dtype=float");
    gd_node(&g, "w", "Const", "", value.p);
    gd_node(&g, "y", "Conv2D", "x w", "T=float strides=[1,1,1,1] padding='SAME'");
    struct rt_session *s = gs_open(gd_span(&g), &options);
    *c = gs_call(s, "x:0", "y:0");
    rt_bytes_clear(&g);
    rt_bytes_clear(&value);
    return s;
}

static struct rt_tensor run(struct fixture *x, struct rt_callable *c, int64_t batch, int64_t side)
{
    struct rt_tensor in, out;
    uint32_t seed = 9;
    assert_ok(rt_tensor_new(&in, NULL, RT_F32, 4, (int64_t[]){batch, side, side, CI}, &x->err),
              &x->err);
    for (int64_t i = 0; i < rt_tensor_count(&in); i++)
        ((float *)in.data)[i] = draw(&seed);
    assert_ok(rt_callable_run(c, &in, &out, NULL, &x->err), &x->err);
    rt_tensor_clear(&in);
    return out;
}

static void run_only(struct fixture *x, struct rt_callable *c, int64_t batch, int64_t side)
{
    struct rt_tensor t = run(x, c, batch, side);
    rt_tensor_clear(&t);
}

static int64_t packed(struct rt_session *s)
{
    struct rt_session_stats stats;
    rt_session_stats(s, &stats);
    return stats.packed_bytes;
}

/* Returns whether `bytes` is the size of weights packed for Winograd F(m x m, 3 x 3). The number of
 * output channels may be rounded up. A direct kernel packs fewer weights, nine per pair of an input
 * and an output channel. */
static bool is_wino(int64_t bytes, int m)
{
    return bytes >= (m + 2) * (m + 2) * CI * CO * 4 && bytes < (m + 2) * (m + 2) * CI * 64 * 4 + 1;
}

static void the_fastest_is_kept_and_nothing_of_the_others(void **state)
{
    struct fixture *x = *state;
    static const char *const names[] = {"conv2d.onednn", "conv2d.winograd2", "conv2d.winograd4"};
    struct rt_tensor y[3];
    struct rt_callable *c;

    for (int i = 0; i < 3; i++) {
        rt_autotune_free(x->a); /* after the cache is freed, all choices are forgotten */
        x->a = rt_autotune_new(NULL);
        rt_autotune_inject(x->a, clock_says, x);
        x->fastest = names[i];
        x->timed = 0;
        struct rt_session *s = session(x, &c);
        y[i] = run(x, c, 1, 12);
        assert_true(x->timed >= 3);
        const int64_t bytes = packed(s);
        if (i == 0)
            assert_true(bytes > 0 && bytes < 2 * 9 * CI * CO * 4);
        else
            assert_true(is_wino(bytes, i == 1 ? 2 : 4));
        /* A different shape with the same filter causes no timing and no packing. */
        x->timed = 0;
        run_only(x, c, 3, 12);
        run_only(x, c, 1, 24);
        assert_int_equal(x->timed, 0);
        assert_int_equal(packed(s), bytes);
        rt_session_free(s);
    }
    for (int i = 1; i < 3; i++)
        for (int64_t k = 0; k < rt_tensor_count(&y[0]); k++)
            assert_true(fabsf(((float *)y[i].data)[k] - ((float *)y[0].data)[k]) < 2e-3f);
    for (int i = 0; i < 3; i++)
        rt_tensor_clear(&y[i]);
}

/* For images of 12x12, the selection rule chooses winograd2. */
static void what_is_a_little_faster_than_the_rules_choice_is_not_taken(void **state)
{
    static const struct {
        double others;
        int slow;
        bool taken;
    } cases[] = {{1.1, 0, false}, {1.2, 0, false}, {1.4, 0, true}, {1.4, 1, false}};
    struct fixture *x = *state;
    struct rt_callable *c;

    x->fastest = "conv2d.onednn";
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        rt_autotune_free(x->a);
        x->a = rt_autotune_new(NULL);
        rt_autotune_inject(x->a, clock_says, x);
        x->others = cases[i].others;
        x->slow = cases[i].slow;
        struct rt_session *s = session(x, &c);
        run_only(x, c, 1, 12);
        assert_int_equal(is_wino(packed(s), 2), !cases[i].taken);
        rt_session_free(s);
    }
}

/* A single run of the kernel that the selection rule chooses may be slow because another process
 * uses the core. */
static void one_slow_run_of_the_rules_choice_is_no_reason_for_another(void **state)
{
    struct fixture *x = *state;
    struct rt_callable *c;

    x->fastest = "conv2d.winograd2";
    x->slow = 1;
    struct rt_session *s = session(x, &c);
    run_only(x, c, 1, 12);
    assert_true(is_wino(packed(s), 2));
    rt_session_free(s);
}

static void what_was_timed_once_is_remembered(void **state)
{
    struct fixture *x = *state;
    struct rt_callable *c;
    x->fastest = "conv2d.onednn";
    for (int i = 0; i < 2; i++) {
        struct rt_session *s = session(x, &c);
        x->timed = 0;
        run_only(x, c, 1, 12);
        assert_int_equal(x->timed > 0, i == 0);
        assert_true(packed(s) < 2 * 9 * CI * CO * 4);
        rt_session_free(s);
        /* the change has no effect, because no kernel is timed any more */
        x->fastest = "conv2d.winograd4";
    }
}

static void a_sealed_session_times_nothing(void **state)
{
    struct fixture *x = *state;
    struct rt_callable *c;
    x->fastest = "conv2d.onednn";
    struct rt_session *s = session(x, &c);
    assert_ok(rt_session_seal(s, &c, 1, false, &x->err), &x->err);
    run_only(x, c, 1, 12);
    assert_int_equal(x->timed, 0);
    assert_true(is_wino(packed(s), 2)); /* without timing, the rule chooses winograd2 */
    rt_session_free(s);
}

static void without_autotune_the_rule_decides_whatever_came_before(void **state)
{
    struct fixture *x = *state;
    struct rt_callable *c;
    int64_t first = 0;
    x->tuning.no_autotune = true;
    x->fastest = "conv2d.onednn";
    for (int i = 0; i < 2; i++) {
        struct rt_session *s = session(x, &c);
        assert_ok(rt_session_seal(s, &c, 1, false, &x->err), &x->err);
        run_only(x, c, 1, i ? 24 : 12);
        run_only(x, c, 1, i ? 12 : 24);
        if (!i)
            first = packed(s);
        assert_int_equal(packed(s), first);
        rt_session_free(s);
    }
    assert_int_equal(x->timed, 0);
}

static void a_filter_that_tiles_are_too_inexact_for_is_summed_directly(void **state)
{
    struct fixture *x = *state;
    struct rt_callable *c;
    x->first_weight = 3e38f; /* a weight for which Winograd's transforms would overflow a float */
    x->fastest = "conv2d.winograd4";
    struct rt_session *s = session(x, &c);
    struct rt_tensor y = run(x, c, 1, 12);
    assert_true(packed(s) < 2 * 9 * CI * CO * 4);
    for (int64_t k = 0; k < rt_tensor_count(&y); k++)
        assert_true(isfinite(((float *)y.data)[k]));
    rt_tensor_clear(&y);
    rt_session_free(s);
}

/* ---- the cache file ---- */

static void a_file_brings_choices_to_another_server(void **state)
{
    struct fixture *x = *state;
    struct rt_callable *c;
    folder_new();
    x->fastest = "conv2d.winograd4";
    for (int i = 0; i < 2; i++) {
        rt_autotune_free(x->a);
        x->a = rt_autotune_new(folder_path("cache"));
        rt_autotune_inject(x->a, clock_says, x);
        x->timed = 0;
        struct rt_session *s = session(x, &c);
        run_only(x, c, 1, 12);
        assert_int_equal(x->timed > 0, i == 0);
        assert_true(is_wino(packed(s), 4));
        assert_ok(rt_session_seal(s, &c, 1, false, &x->err), &x->err);
        rt_session_free(s);
        x->fastest = "conv2d.onednn";
    }
    folder_remove();
}

static void servers_that_share_a_file_lose_nothing(void **state)
{
    struct fixture *x = *state;
    char name[RT_AUTOTUNE_NAME];
    folder_new();
    struct rt_autotune *one = rt_autotune_new(folder_path("cache"));
    struct rt_autotune *two = rt_autotune_new(folder_path("cache"));
    rt_autotune_put(one, "a", "first");
    rt_autotune_put(two, "b", "second");
    assert_ok(rt_autotune_save(one, &x->err), &x->err);
    assert_ok(rt_autotune_save(two, &x->err), &x->err);
    struct rt_autotune *three = rt_autotune_new(folder_path("cache"));
    rt_autotune_find(three, "a", name);
    assert_string_equal(name, "first");
    rt_autotune_find(three, "b", name);
    assert_string_equal(name, "second");
    rt_autotune_find(three, "c", name);
    assert_string_equal(name, "");
    rt_autotune_free(one);
    rt_autotune_free(two);
    rt_autotune_free(three);
    folder_remove();
}

enum { SERVERS = 4, SAVES = 20 };
static char cache[512]; /* path of the autotune file that the processes share */

static void *save_often(void *arg)
{
    struct rt_autotune *a = rt_autotune_new(cache);
    struct rt_error err = {.arena = NULL};
    char key[32];
    const char *who = arg;
    bool ok = a != NULL;

    for (int i = 0; i < SAVES && ok; i++) {
        snprintf(key, sizeof key, "%s%d", who, i);
        rt_autotune_put(a, key, who);
        ok = rt_autotune_save(a, &err) == RT_OK;
    }
    rt_autotune_free(a);
    return ok ? arg : NULL;
}

static void servers_that_save_at_the_same_time_lose_nothing(void **state)
{
    static char who[SERVERS][2] = {"a", "b", "c", "d"};
    char key[32], name[RT_AUTOTUNE_NAME];
    pthread_t thread[SERVERS];
    void *done;
    (void)state;
    folder_new();
    snprintf(cache, sizeof cache, "%s", folder_path("cache"));
    for (int i = 0; i < SERVERS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, save_often, who[i]), 0);
    for (int i = 0; i < SERVERS; i++) {
        assert_int_equal(pthread_join(thread[i], &done), 0);
        assert_ptr_equal(done, who[i]);
    }
    struct rt_autotune *a = rt_autotune_new(cache);
    for (int i = 0; i < SERVERS * SAVES; i++) {
        snprintf(key, sizeof key, "%s%d", who[i % SERVERS], i / SERVERS);
        rt_autotune_find(a, key, name);
        assert_string_equal(name, who[i % SERVERS]);
    }
    rt_autotune_free(a);
    folder_remove();
}

static void as_many_of_the_longest_lines_as_are_kept_fit_into_the_file(void **state)
{
    struct fixture *x = *state;
    char key[RT_AUTOTUNE_KEY], name[RT_AUTOTUNE_NAME], got[RT_AUTOTUNE_NAME];
    folder_new();
    memset(key, 'k', sizeof key - 1);
    memset(name, 'n', sizeof name - 1);
    key[sizeof key - 1] = name[sizeof name - 1] = 0;
    struct rt_autotune *a = rt_autotune_new(folder_path("cache"));
    for (int i = 0; i < RT_AUTOTUNE_MOST; i++) {
        char number[8];
        snprintf(number, sizeof number, "%07d", i);
        memcpy(key, number, 7);
        rt_autotune_put(a, key, name);
    }
    assert_ok(rt_autotune_save(a, &x->err), &x->err);
    rt_autotune_free(a);
    a = rt_autotune_new(folder_path("cache"));
    rt_autotune_find(a, key, got);
    assert_string_equal(got, name);
    memcpy(key, "0000000", 7);
    rt_autotune_find(a, key, got);
    assert_string_equal(got, name);
    rt_autotune_free(a);
    folder_remove();
}

/* One process makes 20,000 choices, which do not all fit in the file. Another process adds a few
 * choices to the same file. */
static void the_oldest_make_room_for_what_is_new(void **state)
{
    struct fixture *x = *state;
    enum { ALL = 20000, LATE = 100 };
    char key[32], name[RT_AUTOTUNE_NAME];
    folder_new();
    struct rt_autotune *a = rt_autotune_new(folder_path("cache"));
    struct rt_autotune *other = rt_autotune_new(folder_path("cache"));
    for (int i = 0; i < ALL; i++) {
        snprintf(key, sizeof key, "key%d", i);
        rt_autotune_put(a, key, "first");
    }
    assert_ok(rt_autotune_save(a, &x->err), &x->err);
    rt_autotune_find(a, "key0", name);
    assert_string_equal(name, "");
    for (int i = 0; i < LATE; i++) {
        snprintf(key, sizeof key, "late%d", i);
        rt_autotune_put(other, key, "second");
    }
    rt_autotune_put(other, "key19999", "second");
    assert_ok(rt_autotune_save(other, &x->err), &x->err);
    rt_autotune_free(a);
    rt_autotune_free(other);
    a = rt_autotune_new(folder_path("cache"));
    for (int i = 0; i < LATE; i++) {
        snprintf(key, sizeof key, "late%d", i);
        rt_autotune_find(a, key, name);
        assert_string_equal(name, "second");
    }
    rt_autotune_find(a, "key19999", name);
    assert_string_equal(name, "second");
    rt_autotune_find(a, "key19998", name);
    assert_string_equal(name, "first");
    rt_autotune_free(a);
    folder_remove();
}

static void a_damaged_file_gives_what_is_whole_in_it(void **state)
{
    struct fixture *x = *state;
    static const char first[] = "slipway autotune 1\n";
    char text[2000], name[RT_AUTOTUNE_NAME];
    int bad;

    snprintf(text, sizeof text,
             "%skey\tname\nno tab here\n\tno_key\nno_name\t\nkey two\tx\nbell\t\a\nlast\tcut",
             first);
    assert_int_equal(rt_autotune_read(x->a, rt_span_str(text), &bad), 1);
    assert_int_equal(bad, 6);
    rt_autotune_find(x->a, "key", name);
    assert_string_equal(name, "name");
    rt_autotune_find(x->a, "last", name);
    assert_string_equal(name, "");

    const size_t at = (size_t)snprintf(text, sizeof text, "%s", first);
    memset(text + at, 'k', 900);
    snprintf(text + at + 900, sizeof text - at - 900, "\tname\nkey\tother\n");
    assert_int_equal(rt_autotune_read(x->a, rt_span_str(text), &bad), 1);
    assert_int_equal(bad, 1);
    rt_autotune_find(x->a, "key", name);
    assert_string_equal(name, "name");

    assert_int_equal(rt_autotune_read(x->a, rt_span_str("slipway autotune 2\nkey\tx\n"), &bad), 0);
    assert_int_equal(bad, -1);
    assert_int_equal(rt_autotune_read(x->a, rt_span_str(""), &bad), 0);
    assert_int_equal(bad, -1);
}

static void a_name_that_is_no_kernel_of_the_node_is_not_heeded(void **state)
{
    struct fixture *x = *state;
    struct rt_callable *c;
    char *text = NULL;
    size_t n = 0;
    folder_new();
    rt_autotune_free(x->a);
    x->a = rt_autotune_new(folder_path("cache"));
    rt_autotune_inject(x->a, clock_says, x);
    x->fastest = "conv2d.onednn";
    struct rt_session *s = session(x, &c);
    run_only(x, c, 1, 12);
    assert_ok(rt_session_seal(s, &c, 1, false, &x->err), &x->err);
    rt_session_free(s);
    assert_ok(rt_file_read(folder_path("cache"), 1 << 20, &text, &n, &x->err), &x->err);
    char *at = strstr(text, "\tconv2d.onednn");
    assert_non_null(at);
    memcpy(at, "\tconv2d.plain\n", 14);
    folder_write("cache", text);
    free(text);
    rt_autotune_free(x->a);
    x->a = rt_autotune_new(folder_path("cache"));
    rt_autotune_inject(x->a, clock_says, x);
    x->timed = 0;
    s = session(x, &c);
    run_only(x, c, 1, 12);
    assert_true(x->timed > 0);
    rt_session_free(s);
    folder_remove();
}

static void check_is(const char *name, enum rt_status want, const char *text)
{
    struct rt_error err = {0};
    assert_int_equal(rt_autotune_check_file(folder_path(name), &err), want);
    if (want)
        assert_non_null(strstr(rt_error_text(&err), text));
}

static void only_a_file_of_ours_is_written(void **state)
{
    static const char *const strange[] = {"notes", "short", "pipe", "folder"};
    struct fixture *x = *state;
    struct rt_autotune *a;
    char *text = NULL;
    size_t n = 0;
    folder_new();
    folder_write("notes", "# A README, longer than the first line of a cache\n");
    folder_write("short", "slipway");
    folder_make("folder");
    assert_int_equal(mkfifo(folder_path("pipe"), 0600), 0);
    folder_write("empty", "");
    folder_write("older", "slipway autotune 0\nwhat it was\n");
    check_is("notes", RT_INVALID_ARGUMENT, "is no autotune cache");
    check_is("short", RT_INVALID_ARGUMENT, "is no autotune cache");
    check_is("pipe", RT_FAILED_PRECONDITION, "not a regular file");
    check_is("folder", RT_FAILED_PRECONDITION, "not a regular file");
    check_is("none/cache", RT_NOT_FOUND, "none/cache cannot be written: No such file");
    check_is("notes/cache", RT_NOT_FOUND, "notes/cache cannot be written: Not a directory");
    check_is("new", RT_OK, NULL);
    check_is("empty", RT_OK, NULL);
    check_is("older", RT_OK, NULL);
    assert_ok(rt_autotune_check_file(NULL, &x->err), &x->err);
    assert_ok(rt_autotune_check_file("", &x->err), &x->err);

    for (size_t i = 0; i < sizeof strange / sizeof strange[0]; i++) {
        enum rt_status want = i < 2 ? RT_INVALID_ARGUMENT : RT_FAILED_PRECONDITION;
        assert_int_equal(rt_autotune_open(&a, folder_path(strange[i]), &x->err), want);
        assert_null(a);
        /* rt_autotune_new does not check whether the file is usable, but rt_autotune_save does. */
        a = rt_autotune_new(folder_path(strange[i]));
        rt_autotune_put(a, "key", "name");
        assert_int_equal(rt_autotune_save(a, &x->err), want);
        rt_autotune_free(a);
    }
    assert_ok(rt_file_read(folder_path("notes"), 1 << 20, &text, &n, &x->err), &x->err);
    assert_int_equal(memcmp(text, "# A README", 10), 0);
    free(text);
    assert_ok(rt_autotune_open(&a, folder_path("older"), &x->err), &x->err);
    rt_autotune_put(a, "key", "name");
    assert_ok(rt_autotune_save(a, &x->err), &x->err);
    rt_autotune_free(a);
    assert_ok(rt_file_read(folder_path("older"), 1 << 20, &text, &n, &x->err), &x->err);
    assert_string_equal(text, "slipway autotune 1\nkey\tname\n");
    free(text);
    /* rt_autotune_open succeeds although the file's folder does not exist, and logs a warning. */
    assert_ok(rt_autotune_open(&a, folder_path("none/cache"), &x->err), &x->err);
    rt_autotune_free(a);
    folder_remove();
}

static void a_session_tells_how_much_was_timed(void **state)
{
    struct fixture *x = *state;
    struct rt_callable *c;
    x->fastest = "conv2d.onednn";
    for (int i = 0; i < 2; i++) {
        struct rt_session *s = session(x, &c);
        run_only(x, c, 1, 12);
        const struct rt_autotune_stats took = rt_autotune_stats(s);
        assert_int_equal(took.timed, i == 0);
        assert_int_equal(took.ns > 0, i == 0);
        assert_int_equal(took.remembered, i == 1);
        rt_session_free(s);
    }
}

static void memory_of_choices_is_bounded(void **state)
{
    struct fixture *x = *state;
    char key[32], name[RT_AUTOTUNE_NAME];
    for (int i = 0; i < RT_AUTOTUNE_MOST + 10; i++) {
        snprintf(key, sizeof key, "k%d", i);
        rt_autotune_put(x->a, key, "n");
    }
    rt_autotune_find(x->a, "k0", name);
    assert_string_equal(name, "");
    snprintf(key, sizeof key, "k%d", RT_AUTOTUNE_MOST / 2);
    rt_autotune_find(x->a, key, name);
    assert_string_equal(name, "n");
    snprintf(key, sizeof key, "k%d", RT_AUTOTUNE_MOST + 9);
    rt_autotune_find(x->a, key, name);
    assert_string_equal(name, "n");
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(the_fastest_is_kept_and_nothing_of_the_others),
        TEST(what_is_a_little_faster_than_the_rules_choice_is_not_taken),
        TEST(one_slow_run_of_the_rules_choice_is_no_reason_for_another),
        TEST(what_was_timed_once_is_remembered),
        TEST(a_sealed_session_times_nothing),
        TEST(without_autotune_the_rule_decides_whatever_came_before),
        TEST(a_filter_that_tiles_are_too_inexact_for_is_summed_directly),
        TEST(a_file_brings_choices_to_another_server),
        TEST(servers_that_share_a_file_lose_nothing),
        TEST(servers_that_save_at_the_same_time_lose_nothing),
        TEST(as_many_of_the_longest_lines_as_are_kept_fit_into_the_file),
        TEST(the_oldest_make_room_for_what_is_new),
        TEST(a_damaged_file_gives_what_is_whole_in_it),
        TEST(a_name_that_is_no_kernel_of_the_node_is_not_heeded),
        TEST(only_a_file_of_ours_is_written),
        TEST(a_session_tells_how_much_was_timed),
        TEST(memory_of_choices_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
