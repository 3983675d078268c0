#include "tests/support/test.h"

#include "runtime/base/base64.h"
#include "runtime/base/arena.h"
#include "runtime/base/bytes.h"
#include "runtime/base/crc32c.h"
#include "runtime/base/machine.h"
#include "runtime/base/map.h"
#include "runtime/base/siphash.h"

static void an_arena_refuses_what_is_over_its_cap_and_stays_usable(void **state)
{
    (void)state;
    struct rt_arena *a = rt_arena_new(10000);
    assert_non_null(rt_arena_alloc(a, 100));
    assert_false(rt_arena_was_full(a));
    assert_null(rt_arena_alloc(a, 20000));
    /* rt_arena_was_full resets its flag, so that a later failure is not attributed to a full
     * arena. */
    assert_true(rt_arena_was_full(a));
    assert_false(rt_arena_was_full(a));
    assert_null(rt_arena_array(a, SIZE_MAX / 2, 4));
    char *p = rt_arena_alloc(a, 200);
    assert_non_null(p);
    assert_int_equal((uintptr_t)p % 16, 0);
    for (int i = 0; i < 200; i++)
        assert_int_equal(p[i], 0);
    assert_int_equal((uintptr_t)rt_arena_aligned(a, 10, 64) % 64, 0);
    assert_null(rt_arena_alloc(a, 20000));
    rt_arena_reset(a);
    assert_false(rt_arena_was_full(a)); /* the failure belonged to an earlier request */
    rt_arena_free(a);
}

static void the_bytes_of_arenas_are_counted_in_one_number(void **state)
{
    (void)state;
    atomic_size_t count = 7;
    struct rt_arena *a = rt_arena_new(SIZE_MAX), *b = rt_arena_new(SIZE_MAX);
    assert_non_null(rt_arena_alloc(a, 100));
    rt_arena_count(a, &count);
    rt_arena_count(b, &count);
    assert_int_equal(count, 7 + rt_arena_used(a));
    assert_non_null(rt_arena_alloc(a, 100000));
    assert_non_null(rt_arena_alloc(b, 3000000));
    assert_true(rt_arena_used(a) > 100000 && rt_arena_used(b) >= 3000000);
    assert_int_equal(count, 7 + rt_arena_used(a) + rt_arena_used(b));
    rt_arena_reset(a);
    assert_true(rt_arena_used(a) < 100000);
    assert_int_equal(count, 7 + rt_arena_used(a) + rt_arena_used(b));
    rt_arena_free(a);
    assert_int_equal(count, 7 + rt_arena_used(b));
    rt_arena_free(b);
    assert_int_equal(count, 7);
}

static void an_error_longer_than_its_buffer_is_whole_in_its_arena(void **state)
{
    (void)state;
    char text[2001];
    memset(text, 'x', 2000);
    text[2000] = '\0';
    struct rt_error cut = {0};
    rt_fail(&cut, RT_INTERNAL, "%s", text);
    assert_true(strlen(rt_error_text(&cut)) < 2000);
    struct rt_error err = {.arena = rt_arena_new(SIZE_MAX)};
    assert_int_equal(rt_fail(&err, RT_NOT_FOUND, "%s", text), RT_NOT_FOUND);
    assert_string_equal(rt_error_text(&err), text);
    rt_fail_prefix(&err, "while %s: ", "testing");
    assert_int_equal(strlen(rt_error_text(&err)), 2000 + strlen("while testing: "));
    assert_int_equal(err.code, RT_NOT_FOUND);
    rt_arena_free(err.arena);
}

static void an_error_without_end_is_cut_at_a_character(void **state)
{
    (void)state;
    enum { SIZE = 3 * RT_MAX_ERROR_BYTES };
    struct rt_arena *arena = rt_arena_new(SIZE_MAX);
    char *text = rt_arena_alloc(arena, SIZE + 1);
    for (int shift = 0; shift < 3; shift++) {
        for (int i = 0; i < SIZE; i++)
            text[i] = i < shift ? 'x' : "\xe2\x82\xac"[(i - shift) % 3];
        struct rt_error whole = {.arena = arena}, cut = {0};
        rt_fail(&whole, RT_INTERNAL, "%s", text);
        rt_fail(&cut, RT_INTERNAL, "%s", text);
        assert_in_range(strlen(rt_error_text(&whole)), RT_MAX_ERROR_BYTES - 4, RT_MAX_ERROR_BYTES);
        assert_int_equal((strlen(rt_error_text(&whole)) - (size_t)shift) % 3, 0);
        assert_int_equal((strlen(rt_error_text(&cut)) - (size_t)shift) % 3, 0);
    }
    rt_arena_free(arena);
}

static void bytes_stop_at_their_limit(void **state)
{
    (void)state;
    struct rt_bytes b;
    rt_bytes_init(&b, 10);
    rt_bytes_adds(&b, "12345");
    rt_bytes_addf(&b, "%d", 67890);
    assert_false(b.failed);
    assert_string_equal(b.p, "1234567890");
    rt_bytes_addc(&b, 'x');
    assert_true(b.failed);
    assert_null(rt_bytes_take(&b, NULL));
    rt_bytes_clear(&b);
}

/* Permits the buffer to grow to at most *arg bytes. */
static bool grants(void *arg, size_t capacity, size_t wanted)
{
    size_t *most = arg;
    assert_true(wanted > capacity);
    return wanted <= *most;
}

static void bytes_ask_before_they_grow(void **state)
{
    (void)state;
    size_t most = 100;
    struct rt_bytes b;
    rt_bytes_init(&b, 1000);
    b.may_grow = grants;
    b.grow_arg = &most;
    /* Doubling would take 128 bytes, which the owner refuses, so the buffer requests only the bytes
     * that it needs. */
    for (int i = 0; i < 99; i++)
        rt_bytes_addc(&b, 'x');
    assert_false(b.failed);
    assert_int_equal(b.n, 99);
    rt_bytes_addc(&b, 'x');
    assert_true(b.failed);
    rt_bytes_clear(&b);
    assert_false(b.failed);
    assert_true(rt_bytes_reserve(&b, 99) && !rt_bytes_reserve(&b, 200));
    rt_bytes_clear(&b);
}

/* A buffer owner that grants growth up to `most` bytes and counts the grants. */
struct owner {
    size_t most;
    int n_granted;
};

static bool grants_and_counts(void *arg, size_t capacity, size_t wanted)
{
    struct owner *o = arg;
    (void)capacity;
    o->n_granted += wanted <= o->most;
    return wanted <= o->most;
}

/* In an earlier version, a buffer whose doubling was refused grew by one byte at a time and copied
 * its 60 MB for every byte. */
static void bytes_near_their_limit_are_moved_a_few_times_only(void **state)
{
    (void)state;
    for (size_t most = 100; most < 3000000; most = most * 3 + 1) {
        struct owner o = {.most = most};
        struct rt_bytes b;
        rt_bytes_init(&b, SIZE_MAX / 4);
        b.may_grow = grants_and_counts;
        b.grow_arg = &o;
        while (!b.failed)
            rt_bytes_addc(&b, 'x');
        /* One of the granted bytes holds the terminating NUL. */
        assert_int_equal(b.n, most - 1);
        assert_true(o.n_granted < 64);
        rt_bytes_clear(&b);
    }
}

static void a_character_takes_one_to_four_bytes_of_utf8(void **state)
{
    (void)state;
    struct rt_bytes b;
    rt_bytes_init(&b, 100);
    const uint32_t c[] = {0x41, 0xe9, 0x20ac, 0x1f600};
    for (size_t i = 0; i < sizeof c / sizeof *c; i++)
        rt_bytes_add_utf8(&b, c[i]);
    assert_string_equal(b.p, "A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
    rt_bytes_clear(&b);
}

static void a_utf8_character_has_a_length_only_if_it_is_valid(void **state)
{
    (void)state;
    const struct {
        const char *text;
        int length;
    } rows[] = {
        {"", 1},
        {"a", 1},
        {"\xc3\xa9", 2},
        {"\xe2\x82\xac", 3},
        {"\xf4\x8f\xbf\xbf", 4},
        {"\x80", 0},             /* a continuation byte */
        {"\xc3", 0},             /* a truncated character */
        {"\xc0\x80", 0},         /* an overlong form */
        {"\xed\xa0\x80", 0},     /* a surrogate */
        {"\xf4\x90\x80\x80", 0}, /* beyond U+10FFFF */
        {"\xf8\x90\x80\x80", 0}, /* no lead byte */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(rt_utf8_length((const unsigned char *)rows[i].text), rows[i].length);
}

static void bytes_that_are_not_utf8_are_replaced(void **state)
{
    (void)state;
    const struct {
        const char *text;
        size_t n;
        const char *want;
    } rows[] = {
        {"", 0, ""},
        {"a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 10, "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"},
        {"\xff", 1, "\xef\xbf\xbd"},
        {"a\xe2\x82z", 4, "a\xef\xbf\xbd\xef\xbf\xbdz"},
        {"\x80\xc3\xa9\xc0\x80\xc3", 6, "\xef\xbf\xbd\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct rt_bytes b;
        rt_bytes_init(&b, 100);
        rt_bytes_adds(&b, "\xff|");
        rt_bytes_add(&b, rows[i].text, rows[i].n);
        rt_bytes_make_utf8(&b, 2);
        assert_int_equal(b.n, 2 + strlen(rows[i].want));
        assert_memory_equal(b.p, "\xff|", 2);
        assert_string_equal(b.p + 2, rows[i].want);
        rt_bytes_clear(&b);
    }
    struct rt_bytes b;
    rt_bytes_init(&b, 4);
    rt_bytes_adds(&b, "a\xff\xff");
    rt_bytes_make_utf8(&b, 0);
    assert_true(b.failed);
    assert_string_equal(b.p, "a\xff\xff");
    rt_bytes_clear(&b);
}

static void a_checksum_is_the_published_one(void **state)
{
    (void)state;
    /* A test vector from section B.4 of RFC 3720. */
    assert_int_equal(rt_crc32c(0, "123456789", 9), 0xe3069283u);
    unsigned char zero[32] = {0};
    assert_int_equal(rt_crc32c(0, zero, 32), 0x8a9136aau);
    uint32_t part = rt_crc32c(0, "1234", 4);
    assert_int_equal(rt_crc32c(part, "56789", 5), 0xe3069283u);
}

/* The hashes are those of bytes objects in CPython 3.11, which uses SipHash-1-3 with a key of zeros
 * when PYTHONHASHSEED is 0. */
static void a_siphash_is_the_published_one(void **state)
{
    (void)state;
    static const uint64_t key[2];
    static const struct {
        const char *text;
        uint64_t hash;
    } golden[] = {{"a", UINT64_C(0x407448d2b89b1813)},
                  {"abcdefg", UINT64_C(0x6db12aae9070f506)},
                  {"abcdefgh", UINT64_C(0x3f7b849c0b8e35ea)},
                  {"The quick brown fox jumps over the lazy dog", UINT64_C(0x8df676d3d00c451e)}};
    for (size_t i = 0; i < sizeof golden / sizeof *golden; i++)
        assert_int_equal(rt_siphash(key, golden[i].text, strlen(golden[i].text)), golden[i].hash);
    const uint64_t *own = rt_siphash_key(), words[] = {1, 2};
    assert_true(own[0] || own[1]);
    struct rt_siphash h = rt_siphash_begin(own);
    rt_siphash_word(&h, 1);
    rt_siphash_word(&h, 2);
    assert_int_equal(rt_siphash_end(h, 0, 0), rt_siphash(own, words, sizeof words));
}

static void a_map_finds_what_was_put_and_not_what_was_removed(void **state)
{
    (void)state;
    struct rt_map m;
    rt_map_init(&m);
    static int values[1000];
    char key[16];
    for (int i = 0; i < 1000; i++) {
        snprintf(key, sizeof key, "key%d", i);
        assert_true(rt_map_put(&m, key, &values[i]));
    }
    assert_true(rt_map_remove(&m, "key500"));
    assert_false(rt_map_remove(&m, "key500"));
    for (int i = 0; i < 1000; i++) {
        snprintf(key, sizeof key, "key%d", i);
        assert_ptr_equal(rt_map_get(&m, key), i == 500 ? NULL : &values[i]);
    }
    assert_true(rt_map_put(&m, "key500", &values[0]));
    assert_ptr_equal(rt_map_get(&m, "key500"), &values[0]);
    rt_map_clear(&m);
}

static void a_map_whose_entries_come_and_go_stays_small(void **state)
{
    (void)state;
    struct rt_map m;
    int value;
    char key[16];

    rt_map_init(&m);
    for (int i = 0; i < 10000; i++) {
        snprintf(key, sizeof key, "key%d", i);
        assert_true(rt_map_put(&m, key, &value));
        if (i >= 3) {
            snprintf(key, sizeof key, "key%d", i - 3);
            assert_true(rt_map_remove(&m, key));
        }
    }
    assert_int_equal(m.n_live, 3);
    assert_true(m.capacity <= 16 && m.n_slots <= 64);
    for (int i = 9990; i < 10000; i++) {
        snprintf(key, sizeof key, "key%d", i);
        assert_ptr_equal(rt_map_get(&m, key), i < 9997 ? NULL : &value);
    }
    rt_map_clear(&m);
}

static void the_machine_has_cores_and_memory(void **state)
{
    (void)state;
    assert_true(rt_machine_cores() >= 1);
    assert_true(rt_machine_free_memory() > 0);
    assert_true(rt_machine_resident() > 0);
}

static void base64_is_read_as_it_is_written(void **state)
{
    (void)state;
    static const char text[] = "any\xff\xfe bytes";
    struct rt_bytes out;
    rt_bytes_init(&out, 1 << 10);
    for (size_t n = 0; n < sizeof text; n++) {
        char back[sizeof text + 2];
        size_t len = 99;
        out.n = 0;
        rt_base64_write(&out, text, n);
        assert_false(out.failed);
        assert_int_equal(out.n, (n + 2) / 3 * 4);
        assert_true(rt_base64_read(NULL, &len, rt_span_of(out.p, out.n)));
        assert_int_equal(len, n);
        assert_true(rt_base64_read(back, &len, rt_span_of(out.p, out.n)));
        assert_true(len == n && memcmp(back, text, n) == 0);
    }
    rt_bytes_clear(&out);

    static const char *const same[] = {"+/8=", "-_8=", "-_8", " +\n/8\t="};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        char back[8];
        size_t len;
        assert_true(rt_base64_read(back, &len, rt_span_str(same[i])));
        assert_true(len == 2 && memcmp(back, "\xfb\xff", 2) == 0);
    }
    static const char *const wrong[] = {
        "A", "AA=A", "AAA==", "A===", "AA*A", "AA\\A", "\xc3\xa9=="};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        size_t len;
        assert_false(rt_base64_read(NULL, &len, rt_span_str(wrong[i])));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(base64_is_read_as_it_is_written),
        cmocka_unit_test(an_arena_refuses_what_is_over_its_cap_and_stays_usable),
        cmocka_unit_test(the_bytes_of_arenas_are_counted_in_one_number),
        cmocka_unit_test(an_error_longer_than_its_buffer_is_whole_in_its_arena),
        cmocka_unit_test(an_error_without_end_is_cut_at_a_character),
        cmocka_unit_test(bytes_stop_at_their_limit),
        cmocka_unit_test(bytes_ask_before_they_grow),
        cmocka_unit_test(bytes_near_their_limit_are_moved_a_few_times_only),
        cmocka_unit_test(a_character_takes_one_to_four_bytes_of_utf8),
        cmocka_unit_test(a_utf8_character_has_a_length_only_if_it_is_valid),
        cmocka_unit_test(bytes_that_are_not_utf8_are_replaced),
        cmocka_unit_test(a_checksum_is_the_published_one),
        cmocka_unit_test(a_siphash_is_the_published_one),
        cmocka_unit_test(a_map_finds_what_was_put_and_not_what_was_removed),
        cmocka_unit_test(a_map_whose_entries_come_and_go_stays_small),
        cmocka_unit_test(the_machine_has_cores_and_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
