/*
 * Tests which owner's idle memory is evicted when the cache is full (runtime/session/idle_cache.h).
 */
#include "tests/support/test.h"

#include "runtime/base/thread.h"
#include "runtime/session/idle_cache.h"

enum { MOST = 8 };

/* A cache owner whose items each have `size` bytes. */
struct shelf {
    struct rt_cache_owner cache_owner;
    struct rt_idle_cache *idle_cache;
    struct rt_mutex mu;
    size_t size;
    int n, n_dropped;
};

static _Atomic int64_t now_ms;
static int64_t injected(void)
{
    return atomic_load(&now_ms) * 1000000;
}

static struct rt_idle_cache *idle_cache_new(size_t bytes)
{
    struct rt_idle_cache *k = rt_idle_cache_new(bytes, 0);
    assert_non_null(k);
    k->clock = injected;
    return k;
}

/* Takes an item out of the cache, either to use it or to evict it. Returns false if the cache is
 * empty. */
static bool take_one(struct shelf *s)
{
    rt_mutex_lock(&s->mu);
    const bool had = s->n > 0;
    if (had) {
        s->n--;
        rt_cache_owner_count(&s->cache_owner, -1, -(int64_t)s->size);
    }
    rt_mutex_unlock(&s->mu);
    if (had)
        rt_idle_cache_release(s->idle_cache, s->size);
    return had;
}

static void drop_one(struct rt_cache_owner *k)
{
    struct shelf *s = k->owner;
    s->n_dropped += take_one(s);
}

/* Returns an item to the cache at the time `at_ms`. Returns false if the cache does not admit
 * it. */
static bool put_one(struct shelf *s, int64_t at_ms)
{
    size_t reserved = 0;
    atomic_store(&now_ms, at_ms);
    if (!rt_idle_cache_reserve(s->idle_cache, &s->cache_owner, &reserved, s->size))
        return false;
    assert_int_equal(reserved, s->size);
    rt_mutex_lock(&s->mu);
    s->n++;
    rt_cache_owner_count(&s->cache_owner, 1, (int64_t)s->size);
    rt_mutex_unlock(&s->mu);
    return true;
}

/* Initialises `s` as a cache owner that belongs to the same session as `of`. */
static void open_shelf_of(struct shelf *of, struct shelf *s, struct rt_idle_cache *idle_cache,
                          size_t size)
{
    *s = (struct shelf){.idle_cache = idle_cache, .size = size};
    s->cache_owner =
        (struct rt_cache_owner){.owner = s, .of_session = &of->cache_owner, .drop = drop_one};
    rt_mutex_init(&s->mu);
    rt_idle_cache_add_owner(idle_cache, &s->cache_owner);
}

static void open_shelf(struct shelf *s, struct rt_idle_cache *idle_cache, size_t size)
{
    open_shelf_of(s, s, idle_cache, size);
}

static void close_shelf(struct shelf *s)
{
    rt_idle_cache_remove_owner(s->idle_cache, &s->cache_owner);
    while (take_one(s))
        ;
    rt_mutex_clear(&s->mu);
}

static void what_was_not_used_for_a_while_gives_way(void **state)
{
    (void)state;
    struct rt_idle_cache *idle_cache = idle_cache_new(100);
    struct shelf a, b, c;
    open_shelf(&a, idle_cache, 40);
    open_shelf(&b, idle_cache, 40);
    open_shelf(&c, idle_cache, 50);
    assert_true(put_one(&a, 1000));
    assert_true(put_one(&b, 1001));
    assert_false(put_one(&c, 1001)); /* the owners `a` and `b` were used recently */
    assert_true(take_one(&b));
    assert_true(put_one(&b, 1050));
    assert_false(put_one(&c, 1099));
    assert_true(put_one(&c, 1150)); /* `a` loses an item, because `b` was used more recently */
    assert_int_equal(a.n_dropped, 1);
    assert_int_equal(b.n_dropped, 0);
    assert_int_equal(rt_idle_cache_bytes_of(idle_cache, &b.cache_owner), 40);
    assert_int_equal(rt_idle_cache_bytes_of(idle_cache, &c.cache_owner), 50);
    c.size = 101;
    assert_false(put_one(&c, 2000)); /* no item is evicted for an item that can never fit */
    c.size = 50;
    assert_int_equal(b.n_dropped, 0);
    close_shelf(&b);
    close_shelf(&a);
    close_shelf(&c);
    assert_int_equal(atomic_load(&idle_cache->idle.used), 0);
    rt_idle_cache_free(idle_cache);
}

static void everybody_in_use_keeps_one(void **state)
{
    (void)state;
    struct rt_idle_cache *idle_cache = idle_cache_new(100);
    struct shelf a, b;
    open_shelf(&a, idle_cache, 30);
    open_shelf(&b, idle_cache, 30);
    for (int i = 0; i < 3; i++)
        assert_true(put_one(&a, 10));
    assert_false(put_one(&a, 10));
    assert_true(put_one(&b, 10)); /* the owner `a` has three items and loses one */
    assert_int_equal(a.n, 2);
    assert_false(put_one(&b, 10)); /* the owner `b` already has one item */
    assert_int_equal(a.n, 2);
    close_shelf(&a);
    close_shelf(&b);
    rt_idle_cache_free(idle_cache);
}

static void what_is_small_keeps_its_reservation_in_use(void **state)
{
    (void)state;
    struct rt_idle_cache *idle_cache = idle_cache_new(1 << 20);
    struct rt_cache_owner who = {.drop = drop_one};
    size_t small = 0, large = 0;
    assert_true(rt_idle_cache_reserve(idle_cache, &who, &small, 1000));
    assert_true(rt_idle_cache_reserve(idle_cache, &who, &large, 100000));
    assert_int_equal(atomic_load(&idle_cache->idle.used), 101000);
    rt_idle_cache_use(idle_cache, &small);
    rt_idle_cache_use(idle_cache, &large);
    assert_int_equal(small, 1000);
    assert_int_equal(large, 0);
    assert_int_equal(atomic_load(&idle_cache->idle.used), 1000);
    assert_true(rt_idle_cache_reserve(idle_cache, &who, &small, 900));
    assert_int_equal(atomic_load(&idle_cache->idle.used), 900);
    assert_false(rt_idle_cache_reserve(idle_cache, &who, &small, 2 << 20));
    assert_int_equal(atomic_load(&idle_cache->idle.used), 0);
    rt_idle_cache_free(idle_cache);
}

static void of_no_capacity_nothing_is_kept(void **state)
{
    (void)state;
    struct rt_idle_cache *idle_cache = idle_cache_new(0);
    struct shelf a;
    open_shelf(&a, idle_cache, 1);
    assert_false(put_one(&a, 0));
    a.size = 0;
    assert_true(put_one(&a, 0));
    close_shelf(&a);
    rt_idle_cache_free(idle_cache);
}

struct user {
    struct shelf *shelves;
    int seed;
    pthread_t thread;
};

static void *use(void *arg)
{
    const struct user *u = arg;
    for (int i = 0; i < 3000; i++) {
        struct shelf *s = &u->shelves[(i * 7 + u->seed) % MOST];
        if (!take_one(s) || i % 3)
            put_one(s, (int64_t)i * 10);
        assert_true(atomic_load(&s->idle_cache->idle.used) <= s->idle_cache->idle.limit);
    }
    return NULL;
}

static void many_threads_stay_below_the_bound(void **state)
{
    (void)state;
    struct rt_idle_cache *idle_cache = idle_cache_new(1000);
    struct shelf s[MOST];
    struct user u[4];
    for (int i = 0; i < MOST; i++)
        open_shelf(&s[i], idle_cache, (size_t)(70 + 20 * i));
    for (int i = 0; i < 4; i++) {
        u[i] = (struct user){s, i, 0};
        assert_int_equal(rt_thread_start(&u[i].thread, "use", use, &u[i]), 0);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(u[i].thread, NULL);
    size_t sum = 0;
    for (int i = 0; i < MOST; i++)
        sum += rt_idle_cache_bytes_of(idle_cache, &s[i].cache_owner);
    assert_int_equal(sum, atomic_load(&idle_cache->idle.used));
    for (int i = 0; i < MOST; i++)
        close_shelf(&s[i]);
    assert_int_equal(atomic_load(&idle_cache->idle.used), 0);
    rt_idle_cache_free(idle_cache);
}

static void the_owners_of_a_session_are_adjacent_and_counted_together(void **state)
{
    (void)state;
    struct rt_idle_cache *idle_cache = idle_cache_new(1000);
    struct shelf a, b, of_a[3];
    open_shelf(&a, idle_cache, 1);
    open_shelf_of(&a, &of_a[0], idle_cache, 10);
    open_shelf(&b, idle_cache, 5);
    open_shelf_of(&a, &of_a[1], idle_cache, 100);
    open_shelf_of(&a, &of_a[2], idle_cache, 200);
    assert_true(put_one(&a, 1000) && put_one(&b, 1000));
    for (int i = 0; i < 3; i++)
        assert_true(put_one(&of_a[i], 1000));
    assert_int_equal(rt_idle_cache_bytes_of(idle_cache, &a.cache_owner), 311);
    assert_int_equal(rt_idle_cache_bytes_of(idle_cache, &b.cache_owner), 5);
    close_shelf(&of_a[1]);
    assert_int_equal(rt_idle_cache_bytes_of(idle_cache, &a.cache_owner), 211);
    const struct rt_cache_owner *last = &a.cache_owner;
    for (int i = 0; i < 2; i++)
        last = last->next;
    assert_ptr_equal(last->of_session, &a.cache_owner);
    close_shelf(&of_a[0]);
    close_shelf(&of_a[2]);
    close_shelf(&a);
    assert_int_equal(rt_idle_cache_bytes_of(idle_cache, &b.cache_owner), 5);
    close_shelf(&b);
    rt_idle_cache_free(idle_cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_not_used_for_a_while_gives_way),
        cmocka_unit_test(everybody_in_use_keeps_one),
        cmocka_unit_test(what_is_small_keeps_its_reservation_in_use),
        cmocka_unit_test(of_no_capacity_nothing_is_kept),
        cmocka_unit_test(many_threads_stay_below_the_bound),
        cmocka_unit_test(the_owners_of_a_session_are_adjacent_and_counted_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
