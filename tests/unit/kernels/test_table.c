/* Tests look-up tables after a restore, with removed keys, and with reserved keys. The expected
 * outputs of dense tables are those of TensorFlow 2.21 (tests/conformance/specs/tables.py). */
#include "tests/support/test.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "kernels/array/hash_set.h"
#include "kernels/kernels.h"
#include "runtime/base/clock.h"
#include "runtime/session/session.h"
#include "tests/support/folder.h"
#include "tests/support/graph_def.h"
#include "tests/support/op.h"

/* The number of calls to clock_gettime, which this program replaces. Each check of a run that has a
 * deadline reads the clock. */
static int64_t n_clock_reads;

int clock_gettime(clockid_t clock, struct timespec *t)
{
    n_clock_reads++;
    return (int)syscall(SYS_clock_gettime, clock, t);
}

struct fixture {
    struct rt_bytes g;
    struct rt_registry *ops;
    struct rt_session *s;
    int64_t deadline_ms; /* deadline of each run, in milliseconds; 0 means no deadline */
    struct rt_error err;
};

static int set_up(void **state)
{
    struct fixture *x = calloc(1, sizeof *x);
    rt_bytes_init(&x->g, 1 << 20);
    x->ops = rt_registry_new();
    *state = x;
    return x->ops && kn_register(x->ops) ? 0 : -1;
}

static int tear_down(void **state)
{
    struct fixture *x = *state;
    rt_session_free(x->s);
    rt_bytes_clear(&x->g);
    rt_registry_free(x->ops);
    free(x);
    return 0;
}

/* Adds the ops on the table to the graph and opens a session on the graph. The graph must already
 * have the table as node "t". */
static void open_table(struct fixture *x)
{
    static const struct rt_session_options none;
    struct rt_session_options options = none;
    struct rt_library *l = NULL;
    const char *of = "Tin=int64 Tout=float";
    gd_node(&x->g, "k", "Placeholder", "", "dtype=int64");
    gd_node(&x->g, "v", "Placeholder", "", "dtype=float");
    gd_node(&x->g, "none", "Const", "", "dtype=float value=float<>:-5");
    gd_node(&x->g, "insert", "LookupTableInsertV2", "t k v", of);
    gd_node(&x->g, "import", "LookupTableImportV2", "t k v", of);
    gd_node(&x->g, "remove", "LookupTableRemoveV2", "t k", "Tin=int64");
    gd_node(&x->g, "find", "LookupTableFindV2", "t k none", of);
    gd_node(&x->g, "size", "LookupTableSizeV2", "t", "");
    gd_node(&x->g, "export", "LookupTableExportV2", "t", "Tkeys=int64 Tvalues=float");
    options.registry = x->ops;
    assert_ok(rt_library_import(&l, gd_span(&x->g), x->ops, &x->err), &x->err);
    assert_ok(rt_session_new(&x->s, l, &options, &x->err), &x->err);
}

static void dense_table(struct fixture *x, const char *empty, const char *attrs)
{
    gd_node(&x->g, "empty", "Const", "", empty);
    gd_node(&x->g, "deleted", "Const", "", "dtype=int64 value=int64<>:-1");
    gd_node(&x->g, "t", "MutableDenseHashTableV2", "empty deleted", attrs);
    open_table(x);
}

#define EMPTY_0  "dtype=int64 value=int64<>:0"
#define BUCKETS8 "key_dtype=int64 value_dtype=float initial_num_buckets=8"

/* Runs the node `what` or, if `what` is "NODE:OUTPUT", fetches that tensor into *out. The keys have
 * shape [n, width], or [n] if width is 0. If v is NULL, no values are fed. */
static enum rt_status run(struct fixture *x, const char *what, int64_t n, int64_t width,
                          const int64_t *k, const float *v, struct rt_tensor *out)
{
    const char *feeds[] = {"k:0", "v:0"};
    const bool fetches = strchr(what, ':') != NULL;
    const int rank = width ? 2 : 1;
    const struct rt_call_spec spec = {.feeds = feeds,
                                      .n_feeds = v ? 2 : 1,
                                      .fetches = &what,
                                      .n_fetches = fetches,
                                      .targets = &what,
                                      .n_targets = !fetches};
    struct rt_tensor in[2] = {op_tensor(RT_I64, rank, (int64_t[]){n, width}, k)}, unused;
    struct rt_callable *c;
    const struct rt_run_options options = {
        .deadline_ns = x->deadline_ms ? rt_now_ns() + x->deadline_ms * 1000000 : 0};
    if (v)
        in[1] = op_tensor(RT_F32, rank, (int64_t[]){n, width ? 1 : 0}, v);
    x->err = (struct rt_error){0};
    enum rt_status st = rt_session_prepare(x->s, &spec, &c, &x->err);
    if (!st)
        st = rt_callable_run(c, in, out ? out : &unused, &options, &x->err);
    rt_tensor_clear(&in[0]);
    rt_tensor_clear(&in[1]);
    return st;
}

static int64_t size_of(struct fixture *x)
{
    struct rt_tensor out;
    const int64_t any = 1;
    assert_ok(run(x, "size:0", 1, 0, &any, NULL, &out), &x->err);
    const int64_t n = *(const int64_t *)out.data;
    rt_tensor_clear(&out);
    return n;
}

static float value_of(struct fixture *x, int64_t key)
{
    struct rt_tensor out;
    assert_ok(run(x, "find:0", 1, 0, &key, NULL, &out), &x->err);
    const float v = *(const float *)out.data;
    rt_tensor_clear(&out);
    return v;
}

static void buckets_that_hold_nothing_are_no_pairs_when_they_are_restored(void **state)
{
    struct fixture *x = *state;
    dense_table(x, EMPTY_0, BUCKETS8);
    assert_ok(run(x, "import", 8, 1, (int64_t[]){0, 1, -1, 3, 0, 0, 0, 0},
                  (float[]){0, 1, 2, 3, 0, 0, 0, 0}, NULL),
              &x->err);
    assert_int_equal(size_of(x), 2);
    assert_true(value_of(x, 1) == 1 && value_of(x, 3) == 3 && value_of(x, 2) == -5);
    assert_ok(run(x, "insert", 2, 0, (int64_t[]){4, 11}, (float[]){4, 11}, NULL), &x->err);
    assert_int_equal(size_of(x), 4);
    assert_ok(run(x, "remove", 2, 0, (int64_t[]){3, 77}, NULL, NULL), &x->err);
    assert_int_equal(size_of(x), 3);
    assert_true(value_of(x, 3) == -5 && value_of(x, 11) == 11);
    assert_ok(run(x, "import", 4, 1, (int64_t[]){0, 0, 0, 0}, (float[]){0, 0, 0, 0}, NULL),
              &x->err);
    assert_int_equal(size_of(x), 0);
}

/* Each key must be exported in the bucket in which TensorFlow looks for the key after a restore. */
static void a_dense_table_exports_buckets(void **state)
{
    static const int64_t want[] = {0, 1, 9, 3, 0, 10, 0, 0};
    struct fixture *x = *state;
    struct rt_tensor keys, values;
    dense_table(x, EMPTY_0, BUCKETS8);
    assert_ok(run(x, "insert", 4, 0, (int64_t[]){1, 9, 3, 10}, (float[]){1, 9, 3, 10}, NULL),
              &x->err);
    assert_ok(run(x, "export:0", 1, 0, want, NULL, &keys), &x->err);
    assert_ok(run(x, "export:1", 1, 0, want, NULL, &values), &x->err);
    assert_int_equal(keys.rank, 2);
    assert_int_equal(keys.dim[0], 8);
    assert_int_equal(keys.dim[1], 1);
    assert_memory_equal(keys.data, want, sizeof want);
    for (int i = 0; i < 8; i++)
        assert_true(((const float *)values.data)[i] == (float)want[i]);
    assert_ok(run(x, "import", 8, 1, keys.data, values.data, NULL), &x->err);
    assert_int_equal(size_of(x), 4);
    rt_tensor_clear(&keys);
    rt_tensor_clear(&values);
}

static void a_reserved_key_is_refused(void **state)
{
    struct fixture *x = *state;
    struct rt_tensor out;
    dense_table(x, EMPTY_0, BUCKETS8);
    assert_fails(run(x, "insert", 2, 0, (int64_t[]){1, 0}, (float[]){1, 2}, NULL),
                 RT_INVALID_ARGUMENT, &x->err, "Using the empty_key as a table key is not allowed");
    assert_int_equal(size_of(x), 1); /* only the key before the refused key was inserted */
    assert_fails(run(x, "find:0", 1, 0, (int64_t[]){-1}, NULL, &out), RT_INVALID_ARGUMENT, &x->err,
                 "Using the deleted_key as a table key is not allowed");
    assert_fails(run(x, "remove", 1, 0, (int64_t[]){0}, NULL, NULL), RT_INVALID_ARGUMENT, &x->err,
                 "Using the empty_key");
    assert_fails(run(x, "import", 8, 0, (int64_t[8]){0}, (float[8]){0}, NULL), RT_INVALID_ARGUMENT,
                 &x->err, "Expected shape [1] for value, got [8]");
    assert_fails(run(x, "import", 2, 2, (int64_t[4]){0}, (float[4]){0}, NULL), RT_INVALID_ARGUMENT,
                 &x->err, "Expected key shape [1] got [2,2]");
}

static void a_table_that_cannot_be_is_refused(void **state)
{
    static const struct {
        const char *empty, *attrs, *words;
    } cases[] = {
        {"dtype=int64 value=int64<>:-1", BUCKETS8, "Empty and deleted keys cannot be equal"},
        {"dtype=int64 value=int64<2>:1,2", BUCKETS8,
         "Empty and deleted keys must have same shape, got shapes: [2] and []"},
        {"dtype=int64 value=int64<1,1>:1", BUCKETS8,
         "Empty key must be a scalar or a vector, got shape [1,1]"},
        {EMPTY_0, "key_dtype=int64 value_dtype=float initial_num_buckets=7",
         "Number of buckets must be at least 4 and a power of 2, got: 7"},
        {EMPTY_0, "key_dtype=int64 value_dtype=float initial_num_buckets=-9223372036854775808",
         "Number of buckets must be at least 4 and a power of 2"},
        {EMPTY_0, "key_dtype=int64 value_dtype=float initial_num_buckets=4611686018427387904", ""},
        {EMPTY_0, "key_dtype=int64 value_dtype=float max_load_factor=1.0f",
         "max_load_factor must be between 0 and 1, got: 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fixture *x;
        const int64_t key = 1;
        (void)state;
        assert_int_equal(set_up((void **)&x), 0);
        dense_table(x, cases[i].empty, cases[i].attrs);
        assert_int_not_equal(run(x, "size:0", 1, 0, &key, NULL, NULL), RT_OK);
        if (!strstr(rt_error_text(&x->err), cases[i].words))
            fail_msg("%s", rt_error_text(&x->err));
        tear_down((void **)&x);
    }
}

/* The load factor would require more buckets than a table may have. */
static void buckets_are_bounded(void **state)
{
    struct fixture *x = *state;
    dense_table(x, EMPTY_0, "key_dtype=int64 value_dtype=float max_load_factor=0.000000001f");
    assert_fails(run(x, "insert", 1, 0, (int64_t[]){1}, (float[]){1}, NULL), RT_RESOURCE_EXHAUSTED,
                 &x->err, "");
    assert_int_equal(size_of(x), 0);
}

static void keys_come_and_go(void **state)
{
    struct fixture *x = *state;
    gd_node(&x->g, "t", "MutableHashTableV2", "", "key_dtype=int64 value_dtype=float");
    open_table(x);
    for (int64_t k = 0; k < 3000; k++) {
        const float v = (float)k;
        assert_ok(run(x, "insert", 1, 0, &k, &v, NULL), &x->err);
        if (k % 500)
            assert_ok(run(x, "remove", 1, 0, &k, NULL, NULL), &x->err);
    }
    assert_int_equal(size_of(x), 6);
    for (int64_t k = 0; k < 3000; k++)
        assert_true(value_of(x, k) == (k % 500 ? -5 : (float)k));
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

/* Asserts that the run ends soon after its deadline, so the op must check the deadline while it
 * probes the table. Without a deadline, each of these runs takes ten seconds or more. The limit of
 * four seconds allows for a busy machine. */
static void ends_soon(struct fixture *x, const char *what, int64_t n, const int64_t *k,
                      const float *v)
{
    enum { LATE_S = 4 };
    struct rt_tensor out;
    x->deadline_ms = 100;
    const int64_t before = rt_now_ns();
    assert_int_equal(run(x, what, n, 0, k, v, &out), RT_DEADLINE_EXCEEDED);
    if ((rt_now_ns() - before) / 1000000000 > LATE_S)
        fail_msg("%s does not look at its deadline", what);
    x->deadline_ms = 0;
}

enum { CROWD = 1 << 17 };

/* The keys hash to the first slots of the table. An attacker could choose such keys if the secret
 * key of this process's hash function were known. */
static void insertions_that_all_collide_end_soon_after_their_deadline(void **state)
{
    struct fixture *x = *state;
    const uint64_t mask = (1 << 20) - 1;
    int64_t *k = calloc(CROWD, sizeof *k), found = 0;
    float *v = calloc(CROWD, sizeof *v);
    assert_true(k && v);
    for (int64_t key = 0; found < CROWD; key++)
        if ((kn_hash_elements(RT_I64, &key, 1, NULL) & mask) < mask >> 7)
            k[found++] = key;
    gd_node(&x->g, "t", "MutableHashTableV2", "", "key_dtype=int64 value_dtype=float");
    open_table(x);
    ends_soon(x, "insert", CROWD, k, v);
    const int64_t there = size_of(x); /* the keys that were inserted before the deadline remain */
    assert_true(there > 0 && there < CROWD);
    assert_true(value_of(x, k[0]) == 0 && value_of(x, k[CROWD - 1]) == -5);
    ends_soon(x, "import", CROWD, k, v);
    assert_int_equal(size_of(x), there);
    assert_true(value_of(x, k[0]) == 0 && value_of(x, k[CROWD - 1]) == -5);
    free(k);
    free(v);
}

/* The import has too many distinct keys to finish before its deadline. */
static void an_import_that_ends_by_its_deadline_leaves_a_dense_table_as_it_was(void **state)
{
    enum { MANY = 1 << 22 };
    struct fixture *x = *state;
    int64_t *k = calloc(MANY, sizeof *k);
    float *v = calloc(MANY, sizeof *v);
    assert_true(k && v);
    for (int64_t i = 0; i < MANY; i++)
        k[i] = i + 1;
    dense_table(x, EMPTY_0, BUCKETS8);
    assert_ok(run(x, "insert", 2, 0, (int64_t[]){3, 9}, (float[]){30, 90}, NULL), &x->err);
    x->deadline_ms = 20;
    assert_int_equal(run(x, "import", MANY, 1, k, v, NULL), RT_DEADLINE_EXCEEDED);
    x->deadline_ms = 0;
    assert_int_equal(size_of(x), 2);
    assert_true(value_of(x, 3) == 30 && value_of(x, 9) == 90 && value_of(x, 1) == -5);
    struct rt_tensor buckets; /* a finished import would have made more than eight buckets */
    assert_ok(run(x, "export:0", 1, 0, k, NULL, &buckets), &x->err);
    assert_int_equal(buckets.dim[0], 8);
    rt_tensor_clear(&buckets);
    assert_ok(run(x, "import", 2, 1, (int64_t[]){1, 0}, (float[]){10, 0}, NULL), &x->err);
    assert_int_equal(size_of(x), 1);
    assert_true(value_of(x, 3) == -5 && value_of(x, 1) == 10);
    free(k);
    free(v);
}

/* An export places keys according to TensorFlow's hash function, which has no secret key, so
 * multiples of 2^32 all hash to the first bucket. */
static void an_export_whose_buckets_all_collide_ends_soon_after_its_deadline(void **state)
{
    struct fixture *x = *state;
    int64_t *k = calloc(CROWD, sizeof *k);
    float *v = calloc(CROWD, sizeof *v);
    assert_true(k && v);
    for (int64_t i = 0; i < CROWD; i++)
        k[i] = (i + 1) << 32;
    dense_table(x, EMPTY_0, BUCKETS8);
    /* The table hashes with a secret key, so keys that are multiples of 2^32 do not collide. */
    x->deadline_ms = 5000;
    assert_ok(run(x, "insert", CROWD, 0, k, v, NULL), &x->err);
    ends_soon(x, "export:0", 1, k, NULL);
    assert_int_equal(size_of(x), CROWD);
    free(k);
    free(v);
}

static enum rt_status fill_from_file(struct fixture *x)
{
    const char *feed = "file:0", *target = "init", *path = folder_path("words");
    const struct rt_call_spec spec = {
        .feeds = &feed, .n_feeds = 1, .targets = &target, .n_targets = 1};
    struct rt_tensor in, unused;
    struct rt_callable *c;
    assert_ok(rt_tensor_new(&in, NULL, RT_STRING, 0, NULL, &x->err), &x->err);
    assert_true(rt_str_set(in.data, NULL, path, strlen(path), &x->err));
    assert_ok(rt_session_prepare(x->s, &spec, &c, &x->err), &x->err);
    const struct rt_run_options options = {
        .deadline_ns = x->deadline_ms ? rt_now_ns() + x->deadline_ms * 1000000 : 0};
    const enum rt_status st = rt_callable_run(c, &in, &unused, &options, &x->err);
    rt_tensor_clear(&in);
    return st;
}

/* While a table grows, each key may write to a new page of memory. 4,096 of these writes take about
 * 10 ms, so the run must be checked at least once in 4,096 writes. */
static void a_table_that_grows_looks_at_its_deadline_often(void **state)
{
    struct fixture *x = *state;
    enum {
        N = 1 << 18,
        N_INDEXED = N
    }; /* N_INDEXED is the total number of keys that are indexed again when the table grows */
    int64_t *k = calloc(N, sizeof *k);
    float *v = calloc(N, sizeof *v);
    assert_true(k && v);
    for (int i = 0; i < N; i++)
        k[i] = i;
    gd_node(&x->g, "t", "MutableHashTableV2", "", "key_dtype=int64 value_dtype=float");
    open_table(x);
    x->deadline_ms = 600000;
    n_clock_reads = 0;
    assert_ok(run(x, "insert", N, 0, k, v, NULL), &x->err);
    assert_true(n_clock_reads >= N_INDEXED / 4096);
    assert_int_equal(size_of(x), N);
    free(k);
    free(v);
}

/* A file of carriage returns is one empty line. Reading 32 MiB takes more than 2 ms, so a deadline
 * that ends the reading takes precedence over the error for the empty line. */
static void a_vocabulary_of_carriage_returns_ends_by_its_deadline(void **state)
{
    enum { BYTES = 32 << 20 };
    struct fixture *x = *state;
    char *text = malloc(BYTES + 1);
    assert_non_null(text);
    memset(text, '\r', BYTES);
    text[BYTES] = '\0';
    folder_new();
    folder_write("words", text);
    free(text);
    gd_node(&x->g, "file", "Placeholder", "", "dtype=string");
    gd_node(&x->g, "words", "HashTableV2", "", "key_dtype=string value_dtype=int64");
    gd_node(&x->g, "init", "InitializeTableFromTextFileV2", "words file",
            "key_index=-2 value_index=-1 vocab_size=-1 delimiter=','");
    dense_table(x, EMPTY_0, BUCKETS8);
    x->deadline_ms = 2;
    assert_int_equal(fill_from_file(x), RT_DEADLINE_EXCEEDED);
    x->deadline_ms = 0;
    assert_fails(fill_from_file(x), RT_INVALID_ARGUMENT, &x->err, "empty line found");
    folder_remove();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(buckets_that_hold_nothing_are_no_pairs_when_they_are_restored),
        T(a_dense_table_exports_buckets),
        T(a_reserved_key_is_refused),
        T(a_table_that_cannot_be_is_refused),
        T(buckets_are_bounded),
        T(keys_come_and_go),
        T(insertions_that_all_collide_end_soon_after_their_deadline),
        T(an_import_that_ends_by_its_deadline_leaves_a_dense_table_as_it_was),
        T(an_export_whose_buckets_all_collide_ends_soon_after_its_deadline),
        T(a_table_that_grows_looks_at_its_deadline_often),
        T(a_vocabulary_of_carriage_returns_ends_by_its_deadline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
