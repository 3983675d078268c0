/* Tests tensors, their buffers and strings, and the pools and budgets that limit their memory
 * (runtime/core/tensor.h). */
#include "tests/support/test.h"

#include <malloc.h>
#include <pthread.h>

#include "runtime/base/heap.h"
#include "runtime/base/pieces.h"
#include "runtime/base/sanitizer.h"
#include "runtime/core/copy.h"
#include "runtime/base/thread.h"
#include "runtime/core/load_memory.h"
#include "runtime/core/tensor.h"
#include "tests/support/cpu_time.h"

static void strings_of_any_length_keep_their_bytes(void **state)
{
    (void)state;
    struct rt_str s = {0}, copy = {0};
    char text[300];
    memset(text, 'x', sizeof text);
    for (size_t n = 0; n < sizeof text; n++) {
        text[n ? n - 1 : 0] = (char)n;
        assert_true(rt_str_set(&s, NULL, text, n, NULL));
        assert_int_equal(s.n, n);
        assert_memory_equal(rt_str_data(&s), text, n);
        rt_str_copy(&copy, &s);
        assert_memory_equal(rt_str_data(&copy), text, n);
    }
    assert_true(rt_str_set(&s, NULL, rt_str_data(&s) + 200, 99, NULL));
    assert_memory_equal(rt_str_data(&s), text + 200, 99);
    rt_str_clear(&s);
    assert_int_equal(s.n, 0);
    rt_str_clear(&copy);
    assert_null(rt_str_resize(&s, NULL, SIZE_MAX, NULL));
    assert_int_equal(s.n, 0);
}

static void a_shape_that_cannot_be_is_refused(void **state)
{
    (void)state;
    struct rt_tensor t;
    struct rt_error err = {0};
    assert_fails(rt_tensor_new(&t, NULL, RT_F32, 1, (int64_t[]){-2}, &err), RT_INVALID_ARGUMENT,
                 &err, "dimension 0 is -2");
    assert_fails(rt_tensor_new(&t, NULL, RT_F32, 9, (int64_t[9]){0}, &err), RT_INVALID_ARGUMENT,
                 &err, "9 dimensions");
    assert_fails(rt_tensor_new(&t, NULL, RT_F32, 2, (int64_t[]){INT64_C(1) << 40, 1 << 30}, &err),
                 RT_INVALID_ARGUMENT, &err, "would have more than 2**63 - 1 elements");
    assert_fails(rt_tensor_new(&t, NULL, RT_F64, 1, (int64_t[]){INT64_MAX}, &err),
                 RT_RESOURCE_EXHAUSTED, &err, "out of memory");
    assert_fails(rt_tensor_new(&t, NULL, (enum rt_dtype)99, 0, NULL, &err), RT_INVALID_ARGUMENT,
                 &err, "type 99");
    assert_int_equal(rt_count(2, (int64_t[]){INT64_MAX, 2}), -1);
    assert_int_equal(rt_count(0, NULL), 1);
    /* The product of the other dimensions must not overflow even if the tensor has no elements. */
    assert_int_equal(rt_count(3, (int64_t[]){0, INT64_MAX, 2}), -1);
    assert_int_equal(rt_count(3, (int64_t[]){INT64_C(1) << 40, 0, 1 << 22}), 0);
    assert_fails(
        rt_tensor_new(&t, NULL, RT_I8, 3, (int64_t[]){0, INT64_C(1) << 62, INT64_C(1) << 2}, &err),
        RT_INVALID_ARGUMENT, &err, "would have more than 2**63 - 1 elements");
    assert_fails(rt_tensor_new(&t, NULL, RT_F32, 2, (int64_t[]){0, INT64_C(1) << 61}, &err),
                 RT_RESOURCE_EXHAUSTED, &err, "out of memory");
    assert_ok(rt_tensor_new(&t, NULL, RT_I8, 2, (int64_t[]){0, INT64_C(1) << 62}, &err), &err);
    rt_tensor_clear(&t);
    assert_ok(rt_tensor_new(&t, NULL, RT_F32, 2, (int64_t[]){0, 5}, &err), &err);
    assert_ptr_equal(t.data, rt_no_elements());
    assert_int_equal(rt_tensor_count(&t), 0);
    rt_tensor_clear(&t);
}

static void a_pool_counts_recycles_and_holds_to_its_limit(void **state)
{
    (void)state;
    struct rt_error err = {0};
    struct rt_pool *p = rt_pool_new(1 << 20);
    struct rt_buffer *a = rt_buffer_new(p, RT_F32, 100000, &err);
    assert_non_null(a);
    void *data = a->data;
    assert_int_equal((uintptr_t)data % 64, 0);
    assert_in_range(rt_pool_in_use(p), 100000, 125000);
    rt_buffer_unref(a);
    assert_int_equal(rt_pool_in_use(p), 0);
    a = rt_buffer_new(p, RT_U8, 99990, &err);
    assert_ptr_equal(a->data, data);
    assert_null(rt_buffer_new(p, RT_F32, 1 << 20, &err));
    assert_int_equal(err.code, RT_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(err.msg, "out of memory: "));
    rt_pool_trim(p, 0);
    rt_pool_unref(p);
    memset(a->data, 1, a->size);
    rt_buffer_unref(a);
}

/* The header of a small allocation is larger than the allocated data, and also counts against the
 * limit. */
static void small_pieces_count_what_they_take(void **state)
{
    (void)state;
    enum { N = 100000 };
    struct rt_error err = {0};
    struct rt_pool *p = rt_pool_new(0);
    struct rt_buffer **b = calloc(N, sizeof *b);
    void **m = calloc(N, sizeof *m);
    assert_non_null(b);
    assert_non_null(m);
    const size_t before = mallinfo2().uordblks;
    for (int i = 0; i < N; i++) {
        b[i] = rt_buffer_new(p, RT_F32, sizeof(float), &err);
        m[i] = rt_pool_alloc(p, 1 + (size_t)i % 100, "a piece", &err);
        assert_non_null(b[i]);
        assert_non_null(m[i]);
        assert_int_equal(((char *)m[i])[i % 100], 0);
    }
    /* Under sanitizers, mallinfo2 reports 0 bytes. */
    const size_t taken = mallinfo2().uordblks - before;
    assert_true(taken <= rt_pool_in_use(p) + rt_pool_in_use(p) / 8);
    for (int i = 0; i < N; i++) {
        rt_buffer_unref(b[i]);
        rt_pool_free(m[i]);
    }
    assert_int_equal(rt_pool_in_use(p), 0);
    rt_pool_set_limit(p, 1000, "--a_flag");
    assert_null(rt_pool_alloc(p, 1000, "a piece", &err));
    assert_int_equal(err.code, RT_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(err.msg, "1000 bytes for a piece"));
    assert_non_null(strstr(err.msg, "--a_flag"));
    rt_pool_free(NULL);
    rt_pool_unref(p);
    free(m);
    free(b);
}

/* Returns the number of allocated bytes, without blocks that are kept for later. Returns 0 under
 * sanitizers, where mallinfo2 reports 0 bytes. */
static size_t allocated(void)
{
    const struct mallinfo2 info = mallinfo2();
    return RT_HAS_SANITIZER ? 0 : info.uordblks + info.hblkhd - rt_heap_idle();
}

/* When the sizes of a run's tensors change, the pool frees idle blocks of the old sizes, so that
 * old and new blocks together stay within the limit. */
static void idle_blocks_of_other_sizes_leave_room(void **state)
{
    (void)state;
    struct rt_error err = {0};
    struct rt_pool *p = rt_pool_new(64 << 20);
    const size_t before = allocated();
    for (size_t mb = 1; mb <= 40; mb++) {
        struct rt_buffer *b = rt_buffer_new(p, RT_U8, mb << 20, &err);
        assert_non_null(b);
        assert_true(allocated() - before <= (66 << 20));
        rt_buffer_unref(b);
    }
    rt_pool_unref(p);
}

static void every_size_fits_its_block(void **state)
{
    (void)state;
    struct rt_pool *p = rt_pool_new(0);
    for (size_t n = 0; n < 5000; n++) {
        struct rt_buffer *b = rt_buffer_new(p, RT_U8, n, NULL);
        memset(b->data, 7, n);
        assert_true(rt_pool_in_use(p) >= n);
        assert_true(rt_pool_in_use(p) <= n + n / 4 + 256);
        rt_buffer_unref(b);
    }
    for (size_t n = 1; n < (size_t)1 << 26; n = n * 3 + 1) {
        struct rt_buffer *b = rt_buffer_new(p, RT_U8, n, NULL);
        assert_true(rt_pool_in_use(p) >= n);
        ((char *)b->data)[n - 1] = 1;
        rt_buffer_unref(b);
    }
    assert_null(rt_buffer_new(p, RT_U8, SIZE_MAX - 8, NULL));
    rt_pool_unref(p);
}

struct toy {
    struct rt_object o;
    int *freed;
};
static void toy_free(struct rt_object *o)
{
    struct toy *t = (struct toy *)o;
    ++*t->freed;
    free(t);
}
static const struct rt_object_type toy_type = {"toy", toy_free};

static void objects_and_strings_go_with_their_last_tensor(void **state)
{
    (void)state;
    int freed = 0;
    struct rt_error err = {0};
    struct toy *o = calloc(1, sizeof *o);
    struct rt_tensor t, u, s;
    o->freed = &freed;
    rt_object_init(&o->o, &toy_type);
    assert_ok(rt_tensor_object(&t, NULL, RT_VARIANT, &o->o, &err), &err);
    assert_ptr_equal(rt_tensor_handle(&t), o);
    assert_ok(rt_tensor_copy(&u, &t, NULL, &err), &err);
    rt_tensor_clear(&t);
    assert_int_equal(freed, 0);
    rt_tensor_clear(&u);
    assert_int_equal(freed, 1);

    struct rt_pool *p = rt_pool_new(0);
    assert_ok(rt_tensor_new(&s, p, RT_STRING, 1, (int64_t[]){3}, &err), &err);
    assert_true(
        rt_str_set((struct rt_str *)s.data + 1, NULL, "a string that is long enough", 28, NULL));
    assert_ok(rt_tensor_copy(&t, &s, p, &err), &err);
    rt_tensor_clear(&s);
    assert_int_equal(rt_strs(&t)[1].n, 28);
    assert_int_equal(rt_strs(&t)[2].n, 0);
    assert_true(rt_tensor_is_sole(&t));
    rt_tensor_ref(&u, &t);
    assert_false(rt_tensor_is_sole(&t));
    rt_tensor_clear(&u);
    rt_tensor_clear(&t);
    rt_pool_unref(p);
}

static int n_loads;
static enum rt_status load(struct rt_buffer *b, const struct rt_check *check, struct rt_error *err)
{
    (void)check, (void)err;
    n_loads++;
    if (n_loads == 1)
        return rt_fail(err, RT_DATA_LOSS, "not yet");
    atomic_store(&b->data, calloc(1, b->size));
    return RT_OK;
}
static void release(struct rt_buffer *b)
{
    free(atomic_load(&b->data));
}

static void *load_it(void *arg)
{
    struct rt_tensor t;
    rt_tensor_ref(&t, arg);
    enum rt_status st = rt_tensor_load(&t, NULL);
    bool good = st == RT_OK && t.data;
    rt_tensor_clear(&t);
    return good ? arg : NULL;
}

static void a_lazy_tensor_is_loaded_once_for_all(void **state)
{
    (void)state;
    struct rt_error err = {0};
    struct rt_buffer *b = rt_buffer_foreign(NULL, 64, NULL, release);
    b->kind = RT_BUF_LAZY;
    b->load = load;
    struct rt_tensor t = {.dtype = RT_F32, .rank = 1, .dim = {16}, .buf = b};
    assert_true(rt_tensor_is_lazy(&t));
    assert_fails(rt_tensor_load(&t, &err), RT_DATA_LOSS, &err, "not yet");
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(rt_thread_start(&threads[i], "load", load_it, &t), 0);
    for (int i = 0; i < 4; i++) {
        void *good;
        pthread_join(threads[i], &good);
        assert_non_null(good);
    }
    assert_int_equal(n_loads, 2);
    assert_false(rt_tensor_is_lazy(&t));
    assert_ok(rt_tensor_load(&t, &err), &err);
    assert_non_null(t.data);
    rt_tensor_clear(&t);
}

static void *churn(void *arg)
{
    for (int i = 0; i < 2000; i++) {
        struct rt_buffer *b = rt_buffer_new(arg, RT_U8, (size_t)(i * 37 % 4000), NULL);
        memset(b->data, i, b->size);
        rt_buffer_unref(b);
    }
    return NULL;
}

static void threads_share_a_pool(void **state)
{
    (void)state;
    struct rt_pool *p = rt_pool_new(0);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(rt_thread_start(&threads[i], "churn", churn, p), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(rt_pool_in_use(p), 0);
    rt_pool_unref(p);
}

static void shapes_print_as_tensorflow_prints_them(void **state)
{
    (void)state;
    char buffer[16];
    assert_string_equal(rt_shape_text(buffer, sizeof buffer, 0, NULL), "[]");
    assert_string_equal(rt_shape_text(buffer, sizeof buffer, 2, (int64_t[]){2, -1}), "[2,?]");
    assert_string_equal(rt_shape_text(buffer, sizeof buffer, -1, NULL), "<unknown>");
    for (size_t n = 1; n <= sizeof buffer; n++) {
        rt_shape_text(buffer, n, 3, (int64_t[]){12345, 67890, 111213});
        assert_int_equal(strlen(buffer), n - 1);
    }
}

static void pools_of_one_budget_share_its_bound(void **state)
{
    (void)state;
    struct rt_error err = {0};
    struct rt_budget budget = {.limit = 100 << 20};
    struct rt_pool *p = rt_pool_new(0), *q = rt_pool_new(0);
    rt_pool_share(p, &budget);
    rt_pool_share(q, &budget);
    struct rt_buffer *a = rt_buffer_new(p, RT_U8, 80 << 20, &err);
    assert_non_null(a);
    assert_true(atomic_load(&budget.used) >= 80 << 20);
    assert_null(rt_buffer_new(q, RT_U8, 40 << 20, &err));
    assert_int_equal(err.code, RT_RESOURCE_EXHAUSTED);
    assert_non_null(
        strstr(err.msg,
               "in use by all runs together of the limit of 104857600 (--run_memory_total_bytes)"));
    struct rt_buffer *b = rt_buffer_new(q, RT_U8, 10 << 20, &err);
    assert_non_null(b);
    rt_pool_unref(p); /* the buffer keeps the pool in memory */
    rt_buffer_unref(a);
    struct rt_buffer *c = rt_buffer_new(q, RT_U8, 80 << 20, &err);
    assert_non_null(c);
    rt_buffer_unref(b);
    rt_buffer_unref(c);
    rt_pool_trim(q, 0);
    assert_true(atomic_load(&budget.used) <= 8 << 20);
    rt_pool_unref(q);
    assert_int_equal(atomic_load(&budget.used), 0);
}

/* For speed, a pool reserves bytes of the budget before it needs them. An idle pool yields its
 * reserve to a pool that needs it. */
static void idle_pools_leave_their_reserve_to_others(void **state)
{
    (void)state;
    enum { POOLS = 40 };
    struct rt_error err = {0};
    struct rt_budget budget = {.limit = 16 << 20};
    struct rt_pool *p[POOLS];
    for (int i = 0; i < POOLS; i++) {
        p[i] = rt_pool_new(0);
        rt_pool_share(p[i], &budget);
        rt_pool_begin(p[i]);
        struct rt_buffer *b = rt_buffer_new(p[i], RT_U8, 1000, &err);
        assert_non_null(b);
        rt_buffer_unref(b);
        rt_pool_end(p[i], 0);
    }
    struct rt_buffer *most = rt_buffer_new(p[7], RT_U8, 13 << 20, &err);
    assert_non_null(most);
    /* 13 MB of the budget of 16 MB are in use. */
    assert_null(rt_buffer_new(p[8], RT_U8, 2 << 20, &err));
    rt_pool_unref(p[20]);
    rt_buffer_unref(most);
    for (int i = 0; i < POOLS; i++)
        if (i != 20)
            rt_pool_unref(p[i]);
    assert_int_equal(atomic_load(&budget.used), 0);
    assert_null(budget.sharing);
}

enum { TIGHT_LIMIT = 24 << 20, TIGHT_THREADS = 4, TIGHT_POOLS = 3 };

struct tight {
    struct rt_budget budget;
    struct rt_pool *pool[TIGHT_POOLS];
    atomic_size_t out;
    /* n_threads counts the started threads, and its value seeds the generator of each new
     * thread. */
    atomic_int n_given, n_beyond, n_threads;
};

/* Thread function. Holds up to two blocks at a time, from any of the pools. Counts how often the
 * blocks of all threads together exceed the limit. */
static void *take_and_give(void *arg)
{
    struct tight *t = arg;
    struct rt_error err = {0};
    struct rt_buffer *held[2] = {NULL};
    size_t size[2] = {0};
    unsigned x = (unsigned)atomic_fetch_add(&t->n_threads, 1);
    for (int i = 0; i < 20000; i++) {
        const int k = i & 1;
        x = x * 1664525 + 1013904223;
        if (held[k]) {
            atomic_fetch_sub(&t->out, size[k]);
            rt_buffer_unref(held[k]);
        }
        size[k] = (size_t)1 << (12 + (x >> 16) % 12);
        held[k] = rt_buffer_new(t->pool[(x >> 8) % TIGHT_POOLS], RT_U8, size[k], &err);
        if (held[k]) {
            atomic_fetch_add(&t->n_given, 1);
            if (atomic_fetch_add(&t->out, size[k]) + size[k] > TIGHT_LIMIT)
                atomic_fetch_add(&t->n_beyond, 1);
        }
    }
    for (int k = 0; k < 2; k++) {
        if (held[k])
            atomic_fetch_sub(&t->out, size[k]);
        rt_buffer_unref(held[k]);
    }
    return NULL;
}

static void a_tight_budget_holds_while_reserves_move(void **state)
{
    (void)state;
    struct tight t = {.budget.limit = TIGHT_LIMIT};
    pthread_t threads[TIGHT_THREADS];
    for (int i = 0; i < TIGHT_POOLS; i++) {
        t.pool[i] = rt_pool_new(0);
        rt_pool_share(t.pool[i], &t.budget);
    }
    for (int i = 0; i < TIGHT_THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_and_give, &t), 0);
    for (int i = 0; i < TIGHT_THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_true(atomic_load(&t.n_given) > 1000);
    assert_int_equal(atomic_load(&t.n_beyond), 0);
    for (int i = 0; i < TIGHT_POOLS; i++)
        rt_pool_unref(t.pool[i]);
    assert_int_equal(atomic_load(&t.budget.used), 0);
}

static void loads_leave_a_part_of_the_budget_to_requests(void **state)
{
    (void)state;
    struct rt_error err = {0};
    struct rt_budget budget = {.limit = 100 << 20, .n_sessions = 3};
    struct rt_pool *load[2], *request = rt_pool_new(0);
    struct rt_buffer *a, *b;

    rt_pool_share(request, &budget);
    for (int i = 0; i < 2; i++) {
        load[i] = rt_pool_new(0);
        rt_pool_share(load[i], &budget);
        rt_pool_count_as_load(load[i], true);
    }
    a = rt_buffer_new(load[0], RT_U8, 40 << 20, &err);
    assert_non_null(a);
    assert_null(rt_buffer_new(load[1], RT_U8, 20 << 20, &err));
    assert_int_equal(err.code, RT_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(err.msg, "limit of 104857600, of which loads may use half "
                                    "(--run_memory_total_bytes)"));
    b = rt_buffer_new(request, RT_U8, 50 << 20, &err);
    assert_non_null(b);
    /* The memory of a version that is served no longer counts as a load's. */
    rt_buffer_unref(b);
    rt_pool_count_as_load(load[0], false);
    b = rt_buffer_new(load[1], RT_U8, 40 << 20, &err);
    assert_non_null(b);
    rt_pool_count_as_load(load[0], true);
    assert_null(rt_buffer_new(load[1], RT_U8, 5 << 20, &err));
    rt_buffer_unref(a);
    rt_buffer_unref(b);
    /* A load has the budget to itself if there is no other session. */
    atomic_store(&budget.n_sessions, 1);
    b = rt_buffer_new(load[1], RT_U8, 60 << 20, &err);
    assert_non_null(b);
    rt_buffer_unref(b);
    for (int i = 0; i < 2; i++)
        rt_pool_unref(load[i]);
    rt_pool_unref(request);
    assert_int_equal(atomic_load(&budget.used), 0);
}

/* The cost of a refusal by a full budget must not depend on the number of pools that share the
 * budget. An implementation that queried 8,000 pools at each of 40,000 refusals took ten seconds or
 * more. */
static void a_refusal_does_not_ask_all_pools_that_have_nothing(void **state)
{
    (void)state;
    enum { POOLS = 8000, REFUSALS = 40000, MOST_S = 2 };
    struct rt_error err = {0};
    struct rt_budget budget = {.limit = 16 << 20};
    struct rt_pool **p = calloc(POOLS, sizeof *p);
    assert_non_null(p);
    for (int i = 0; i < POOLS; i++) {
        p[i] = rt_pool_new(0);
        assert_non_null(p[i]);
        rt_pool_share(p[i], &budget);
    }
    struct rt_buffer *most = rt_buffer_new(p[0], RT_U8, 13 << 20, &err);
    assert_non_null(most);
    const int64_t before = cpu_now_ns();
    for (int i = 0; i < REFUSALS; i++)
        assert_null(rt_buffer_new(p[i % POOLS], RT_U8, 2 << 20, &err));
    assert_true((cpu_now_ns() - before) / 1000000000 < MOST_S);
    /* The freed block becomes part of its pool's reserve, from which another pool gets bytes. */
    rt_buffer_unref(most);
    struct rt_buffer *other = rt_buffer_new(p[POOLS - 1], RT_U8, 13 << 20, &err);
    assert_non_null(other);
    rt_buffer_unref(other);
    for (int i = 0; i < POOLS; i++)
        rt_pool_unref(p[i]);
    free(p);
    assert_int_equal(atomic_load(&budget.used), 0);
}

static void what_is_no_tensor_counts_likewise(void **state)
{
    (void)state;
    struct rt_error err = {0};
    struct rt_budget budget = {.limit = 100 << 20};
    struct rt_pool *p = rt_pool_new(64 << 20);
    rt_pool_share(p, &budget);
    rt_pool_begin(p);
    assert_ok(rt_pool_charge(p, 40 << 20, "a block", &err), &err);
    assert_true(rt_pool_has_capacity(p, 24 << 20));
    assert_false(rt_pool_has_capacity(p, (24 << 20) + 1));
    assert_true(atomic_load(&budget.used) >= 40 << 20);
    assert_fails(rt_pool_charge(p, 30 << 20, "a block", &err), RT_RESOURCE_EXHAUSTED, &err,
                 "out of memory: 31457280 bytes for a block, with 41943040 in use of the limit of "
                 "67108864 (--run_memory_limit_bytes)");
    assert_int_equal(rt_pool_charge(p, SIZE_MAX, "a block", NULL), RT_RESOURCE_EXHAUSTED);
    assert_null(rt_buffer_new(p, RT_U8, 30 << 20, &err));
    assert_int_equal(err.code, RT_RESOURCE_EXHAUSTED);
    struct rt_buffer *b = rt_buffer_new(p, RT_U8, 20 << 20, &err);
    assert_non_null(b);
    rt_pool_discharge(p, 40 << 20);
    rt_buffer_unref(b);
    /* The pool retains the blocks of buffers for the next run, but not the bytes charged with
     * rt_pool_charge. */
    assert_in_range(rt_pool_end(p, 0), 0, 20 << 20);
    assert_int_equal(rt_pool_in_use(p), 0);
    rt_pool_unref(p);
    assert_int_equal(atomic_load(&budget.used), 0);
}

static void a_refusal_tells_what_was_asked_and_what_it_counts_as(void **state)
{
    (void)state;
    struct rt_error err = {0};
    struct rt_pool *p = rt_pool_new(1000);
    assert_null(rt_buffer_new(p, RT_U8, 900, &err));
    assert_string_equal(
        rt_error_text(&err),
        "out of memory: 900 bytes for a tensor (1215 with its block), with 0 in use "
        "of the limit of 1000 (--run_memory_limit_bytes)");
    rt_pool_unref(p);
}

/* A cancellation check that succeeds *arg times and then reports that the run was cancelled. */
static enum rt_status cancel_after(void *arg, struct rt_error *err)
{
    int *left = arg;

    return (*left)-- > 0 ? RT_OK : rt_fail(err, RT_CANCELLED, "the run was cancelled");
}

/* 17 MB of numbers, and 50,000 strings, are copied in pieces. */
static void a_copy_ends_when_the_run_does(void **state)
{
    (void)state;
    enum { BYTES = 17 << 20, STRINGS = 50000 };
    static const struct {
        enum rt_dtype dtype;
        int64_t n;
        int n_checks;
    } cases[] = {{RT_U8, BYTES, BYTES / RT_PIECE_BYTES}, {RT_STRING, STRINGS, STRINGS >> 14}};
    struct rt_pool *p = rt_pool_new(0);
    struct rt_error err = {0};

    for (int k = 0; k < 2; k++) {
        int left = 1000;
        const struct rt_check check = {cancel_after, &left};
        struct rt_tensor t, copy;
        assert_ok(rt_tensor_new(&t, p, cases[k].dtype, 1, &cases[k].n, &err), &err);
        const size_t held = rt_pool_in_use(p);
        if (k)
            assert_true(rt_str_set((struct rt_str *)t.data + STRINGS - 1, p, "the last", 8, &err));
        else
            memset(t.data, 7, BYTES);
        assert_ok(rt_tensor_copy_checked(&copy, &t, p, &check, &err), &err);
        if (k)
            assert_string_equal(rt_str_data(&rt_strs(&copy)[STRINGS - 1]), "the last");
        else
            assert_memory_equal(copy.data, t.data, BYTES);
        rt_tensor_clear(&copy);
        const int n_checks = 1000 - left;
        assert_true(n_checks >= cases[k].n_checks);
        for (int i = 0; i < n_checks; i++) {
            left = i;
            assert_fails(rt_tensor_copy_checked(&copy, &t, p, &check, &err), RT_CANCELLED, &err,
                         "was cancelled");
            assert_null(copy.data);
            assert_int_equal(rt_pool_in_use(p), held);
        }
        rt_tensor_clear(&t);
    }
    rt_pool_unref(p);
}

static void zeroing_many_strings_ends_when_the_run_does(void **state)
{
    (void)state;
    enum {
        STRINGS = 5 * RT_ZERO_PIECE / (int)sizeof(struct rt_str) / 2
    }; /* 2.5 times as many bytes as are zeroed between two cancellation checks */
    struct rt_error err = {0};
    struct rt_pool *p = rt_pool_new(0);
    int left = 10;
    const struct rt_check check = {cancel_after, &left};
    struct rt_tensor t;

    assert_ok(rt_tensor_new_checked(&t, p, RT_STRING, 1, (int64_t[]){STRINGS}, &check, &err), &err);
    assert_int_equal(left, 8);
    struct rt_str *text = t.data;
    for (int i = 0; i < STRINGS; i++) {
        assert_int_equal(text[i].n, 0);
        assert_true(rt_str_set(&text[i], p, "longer than what fits into it", 29, &err));
    }
    /* The next tensor gets the memory of the previous tensor. That memory is full of pointers to
     * freed strings. */
    rt_tensor_clear(&t);
    for (int most = 0; most < 2; most++) {
        left = most;
        assert_fails(rt_tensor_new_checked(&t, p, RT_STRING, 1, (int64_t[]){STRINGS}, &check, &err),
                     RT_CANCELLED, &err, "the run was cancelled");
        assert_null(t.buf);
        assert_int_equal(rt_pool_in_use(p), 0);
    }
    rt_pool_unref(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strings_of_any_length_keep_their_bytes),
        cmocka_unit_test(a_shape_that_cannot_be_is_refused),
        cmocka_unit_test(a_pool_counts_recycles_and_holds_to_its_limit),
        cmocka_unit_test(small_pieces_count_what_they_take),
        cmocka_unit_test(idle_blocks_of_other_sizes_leave_room),
        cmocka_unit_test(every_size_fits_its_block),
        cmocka_unit_test(objects_and_strings_go_with_their_last_tensor),
        cmocka_unit_test(a_lazy_tensor_is_loaded_once_for_all),
        cmocka_unit_test(threads_share_a_pool),
        cmocka_unit_test(shapes_print_as_tensorflow_prints_them),
        cmocka_unit_test(pools_of_one_budget_share_its_bound),
        cmocka_unit_test(idle_pools_leave_their_reserve_to_others),
        cmocka_unit_test(a_tight_budget_holds_while_reserves_move),
        cmocka_unit_test(loads_leave_a_part_of_the_budget_to_requests),
        cmocka_unit_test(a_refusal_does_not_ask_all_pools_that_have_nothing),
        cmocka_unit_test(what_is_no_tensor_counts_likewise),
        cmocka_unit_test(a_refusal_tells_what_was_asked_and_what_it_counts_as),
        cmocka_unit_test(a_copy_ends_when_the_run_does),
        cmocka_unit_test(zeroing_many_strings_ends_when_the_run_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
