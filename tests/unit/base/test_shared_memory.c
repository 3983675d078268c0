/* Tests registering regions of POSIX shared memory, and the checks before each use of a region. */
#include "tests/support/test.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/files/file.h"
#include "server/base/shared_memory.h"

enum { LIMIT = 100, OBJECT_BYTES = 64 };

struct world {
    struct srv_shared_memory *memory;
    char key[64]; /* a shared memory object whose byte i has the value i */
    int fd;
    struct rt_arena *arena;
    struct rt_error err;
};

static int set_up(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    unsigned char bytes[OBJECT_BYTES];

    assert_non_null(w);
    w->memory = srv_shared_memory_new(LIMIT);
    w->arena = rt_arena_new(1 << 20);
    assert_true(w->memory && w->arena);
    w->err.arena = w->arena;
    snprintf(w->key, sizeof w->key, "/slipway_test_%d", (int)getpid());
    w->fd = shm_open(w->key, O_RDWR | O_CREAT | O_EXCL, 0600);
    assert_true(w->fd >= 0);
    for (int i = 0; i < OBJECT_BYTES; i++)
        bytes[i] = (unsigned char)i;
    assert_int_equal(pwrite(w->fd, bytes, sizeof bytes, 0), sizeof bytes);
    *state = w;
    return 0;
}

static int tear_down(void **state)
{
    struct world *w = *state;
    srv_shared_memory_free(w->memory);
    rt_arena_free(w->arena);
    close(w->fd);
    shm_unlink(w->key);
    free(w);
    return 0;
}

static enum rt_status add(struct world *w, const char *name, uint64_t offset, uint64_t bytes)
{
    return srv_region_register(w->memory, rt_span_str(name), rt_span_str(w->key), offset, bytes,
                               &w->err);
}

static enum rt_status get(struct world *w, const char *name, uint64_t offset, void *dst, size_t n)
{
    return srv_region_read(w->memory, rt_span_str(name), offset, dst, n, &w->err);
}

static int count(struct world *w, const char *name)
{
    struct srv_region_info *list;
    int n = 0;
    assert_ok(srv_region_list(w->memory, rt_span_str(name), w->arena, &list, &n, &w->err), &w->err);
    return n;
}

static void a_region_is_read_and_written_at_its_own_offset(void **state)
{
    struct world *w = *state;
    unsigned char got[4];

    assert_ok(add(w, "r", 8, 16), &w->err);
    assert_ok(get(w, "r", 2, got, sizeof got), &w->err);
    assert_memory_equal(got, ((unsigned char[]){10, 11, 12, 13}), sizeof got);
    assert_ok(srv_region_write(w->memory, rt_span_str("r"), 14, "\xaa\xbb", 2, &w->err), &w->err);
    assert_int_equal(pread(w->fd, got, sizeof got, 21), sizeof got);
    assert_memory_equal(got, "\x15\xaa\xbb\x18", sizeof got);
}

static void no_byte_outside_a_region_is_used(void **state)
{
    struct world *w = *state;
    unsigned char got[32];
    const struct rt_span r = rt_span_str("r");

    assert_ok(add(w, "r", 8, 16), &w->err);
    assert_ok(srv_region_check(w->memory, r, 0, 16, &w->err), &w->err);
    assert_ok(srv_region_check(w->memory, r, 16, 0, &w->err), &w->err);
    assert_fails(get(w, "r", 0, got, 17), RT_INVALID_ARGUMENT, &w->err,
                 "\"r\" has 16 bytes, but a tensor names 17 bytes at offset 0");
    assert_fails(srv_region_write(w->memory, r, 15, "ab", 2, &w->err), RT_INVALID_ARGUMENT, &w->err,
                 "but a tensor names");
    /* The sum of the offset and the size exceeds 2^64. */
    assert_fails(srv_region_check(w->memory, r, 1, UINT64_MAX, &w->err), RT_INVALID_ARGUMENT,
                 &w->err, "but a tensor names");
    assert_fails(srv_region_check(w->memory, r, UINT64_MAX, 1, &w->err), RT_INVALID_ARGUMENT,
                 &w->err, "but a tensor names");
}

static void an_object_that_shrinks_is_noticed_at_the_next_use(void **state)
{
    struct world *w = *state;
    unsigned char got[8];

    assert_ok(add(w, "r", 32, 32), &w->err);
    assert_ok(get(w, "r", 0, got, sizeof got), &w->err);
    assert_int_equal(ftruncate(w->fd, OBJECT_BYTES - 1), 0);
    assert_fails(get(w, "r", 0, got, sizeof got), RT_INVALID_ARGUMENT, &w->err,
                 "\"r\" has become larger than its shared memory object");
    assert_fails(srv_region_write(w->memory, rt_span_str("r"), 0, "a", 1, &w->err),
                 RT_INVALID_ARGUMENT, &w->err, "has become larger");
}

static void an_object_whose_name_is_gone_stays_usable(void **state)
{
    struct world *w = *state;
    unsigned char got[1];

    assert_ok(add(w, "r", 5, 1), &w->err);
    shm_unlink(w->key);
    assert_ok(get(w, "r", 0, got, 1), &w->err);
    assert_int_equal(got[0], 5);
    assert_fails(add(w, "again", 5, 1), RT_INVALID_ARGUMENT, &w->err, "cannot be opened");
}

static void keys_and_names_are_checked(void **state)
{
    struct world *w = *state;
    const char *const bad[] = {"", "/", ".", "/..", "/a/b", "a/../b", "//a"};
    char name[257];

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_fails(
            srv_region_register(w->memory, rt_span_str("r"), rt_span_str(bad[i]), 0, 1, &w->err),
            RT_INVALID_ARGUMENT, &w->err, "no name of a shared memory object");
    assert_fails(
        srv_region_register(w->memory, rt_span_str("r"), rt_span_of("/a\0b", 4), 0, 1, &w->err),
        RT_INVALID_ARGUMENT, &w->err, "no name of a shared memory object");
    memset(name, 'n', sizeof name - 1);
    name[256] = '\0';
    assert_fails(add(w, "", 0, 1), RT_INVALID_ARGUMENT, &w->err, "1 to 255 bytes");
    assert_fails(add(w, name, 0, 1), RT_INVALID_ARGUMENT, &w->err, "1 to 255 bytes");
    assert_ok(add(w, name + 1, 0, 1), &w->err);
    assert_int_equal(count(w, ""), 1);
}

static void sizes_are_compared_with_the_object_and_the_limit(void **state)
{
    struct world *w = *state;

    assert_fails(add(w, "r", 0, 0), RT_INVALID_ARGUMENT, &w->err, "at least 1");
    assert_fails(add(w, "r", UINT64_MAX, 1), RT_INVALID_ARGUMENT, &w->err, "at most 2^63");
    assert_fails(add(w, "r", 1, INT64_MAX), RT_INVALID_ARGUMENT, &w->err, "at most 2^63");
    assert_fails(add(w, "r", 1, OBJECT_BYTES), RT_INVALID_ARGUMENT, &w->err,
                 "\"r\" is larger than its shared memory object");
    assert_ok(add(w, "r", 0, OBJECT_BYTES), &w->err);
    assert_fails(add(w, "r", 0, 1), RT_ALREADY_EXISTS, &w->err, "is registered already");
    assert_fails(add(w, "s", 0, LIMIT - OBJECT_BYTES + 1), RT_RESOURCE_EXHAUSTED, &w->err,
                 "--system_shared_memory_bytes");
    assert_ok(add(w, "s", 0, LIMIT - OBJECT_BYTES), &w->err);
    /* Forgetting a region gives its bytes back. */
    srv_region_unregister(w->memory, rt_span_str("s"));
    assert_ok(add(w, "t", 0, LIMIT - OBJECT_BYTES), &w->err);
}

static void regions_are_listed_and_forgotten_by_name_or_together(void **state)
{
    struct world *w = *state;
    struct srv_region_info *list;
    unsigned char got[1];
    int n;

    assert_ok(add(w, "a", 1, 2), &w->err);
    assert_ok(add(w, "b", 3, 4), &w->err);
    assert_ok(add(w, "c", 5, 6), &w->err);
    assert_ok(srv_region_list(w->memory, rt_span_str("b"), w->arena, &list, &n, &w->err), &w->err);
    assert_int_equal(n, 1);
    assert_string_equal(list[0].name, "b");
    assert_string_equal(list[0].key, w->key);
    assert_int_equal(list[0].offset, 3);
    assert_int_equal(list[0].bytes, 4);
    srv_region_unregister(w->memory, rt_span_str("no such region"));
    assert_int_equal(count(w, ""), 3);
    srv_region_unregister(w->memory, rt_span_str("b"));
    assert_int_equal(count(w, "b"), 0);
    assert_int_equal(count(w, ""), 2);
    assert_fails(get(w, "b", 0, got, 1), RT_INVALID_ARGUMENT, &w->err,
                 "no region of shared memory \"b\" is registered");
    assert_ok(get(w, "c", 0, got, 1), &w->err);
    srv_region_unregister(w->memory, rt_span_of(NULL, 0));
    assert_int_equal(count(w, ""), 0);
}

static void the_number_of_regions_is_limited(void **state)
{
    struct world *w = *state;
    char name[16];

    srv_shared_memory_free(w->memory);
    w->memory = srv_shared_memory_new(UINT64_MAX);
    assert_non_null(w->memory);
    for (int i = 0; i < SRV_MAX_REGIONS; i++) {
        snprintf(name, sizeof name, "r%d", i);
        /* Each region has a descriptor of its own, and few systems allow so many by default. */
        if (add(w, name, 0, 1)) {
            assert_int_equal(i, rt_file_most_kept());
            skip();
        }
    }
    assert_fails(add(w, "one more", 0, 1), RT_RESOURCE_EXHAUSTED, &w->err,
                 "1024 regions of shared memory are registered");
}

/* With a limit of 320 open files, regions keep an eighth, and no descriptor of the last 64. */
static void regions_leave_descriptors_to_others(void **state)
{
    enum { FILES = 320, REGIONS = FILES / 8 };
    struct world *w = *state;
    struct rlimit before;
    char name[16];
    int held[FILES], n_held = 0;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &(struct rlimit){FILES, before.rlim_max}), 0);
    srv_shared_memory_free(w->memory);
    w->memory = srv_shared_memory_new(UINT64_MAX);
    assert_non_null(w->memory);
    for (int i = 0; i < REGIONS; i++) {
        snprintf(name, sizeof name, "r%d", i);
        assert_ok(add(w, name, 0, 1), &w->err);
    }
    assert_fails(
        add(w, "one more", 0, 1), RT_RESOURCE_EXHAUSTED, &w->err,
        "40 regions of shared memory are registered, an eighth of the limit of open files");
    srv_region_unregister(w->memory, rt_span_of(NULL, 0));
    do
        held[n_held] = dup(0);
    while (held[n_held++] < FILES - 65);
    assert_fails(add(w, "r", 0, 1), RT_RESOURCE_EXHAUSTED, &w->err, "leaves no descriptor");
    while (n_held)
        close(held[--n_held]);
    assert_ok(add(w, "r", 0, 1), &w->err);
    setrlimit(RLIMIT_NOFILE, &before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_region_is_read_and_written_at_its_own_offset, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(no_byte_outside_a_region_is_used, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_object_that_shrinks_is_noticed_at_the_next_use, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(an_object_whose_name_is_gone_stays_usable, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(keys_and_names_are_checked, set_up, tear_down),
        cmocka_unit_test_setup_teardown(sizes_are_compared_with_the_object_and_the_limit, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(regions_are_listed_and_forgotten_by_name_or_together,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_number_of_regions_is_limited, set_up, tear_down),
        cmocka_unit_test_setup_teardown(regions_leave_descriptors_to_others, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
