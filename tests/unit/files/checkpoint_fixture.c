#include "tests/unit/files/checkpoint_fixture.h"

#include <dirent.h>
#include <string.h>

#include "runtime/files/file.h"

int ck_set_up(void **state)
{
    (void)state;
    folder_new();
    return 0;
}

int ck_tear_down(void **state)
{
    (void)state;
    folder_remove();
    return 0;
}

const struct rt_checkpoint_entry *ck_entry(const struct rt_checkpoint *c, const char *name)
{
    for (int i = 0; i < rt_checkpoint_count(c); i++)
        if (strcmp(rt_checkpoint_at(c, i)->name, name) == 0)
            return rt_checkpoint_at(c, i);
    return NULL;
}

void ck_get(struct rt_checkpoint *c, const char *name, enum rt_dtype dtype, const char *slice,
            struct rt_tensor *t)
{
    struct rt_error err = {0};
    assert_ok(
        rt_checkpoint_tensor(c, name, slice ? rt_span_str(slice) : CK_WHOLE, dtype, NULL, t, &err),
        &err);
    assert_ok(rt_tensor_load(t, &err), &err);
}

void ck_assert_as_plain(struct rt_checkpoint *c)
{
    struct rt_error err = {0};
    struct rt_checkpoint *plain;

    assert_ok(rt_checkpoint_open(&plain, CK_PLAIN, NULL, &err), &err);
    assert_int_equal(rt_checkpoint_count(c), rt_checkpoint_count(plain));
    for (int i = 0; i < rt_checkpoint_count(c); i++) {
        const struct rt_checkpoint_entry *e = rt_checkpoint_at(c, i);
        struct rt_tensor a, b;
        ck_get(plain, e->name, e->dtype, NULL, &a);
        ck_get(c, e->name, e->dtype, NULL, &b);
        assert_int_equal(rt_tensor_count(&a), rt_tensor_count(&b));
        for (int64_t k = 0; k < rt_tensor_count(&a) && e->dtype == RT_STRING; k++)
            assert_true(rt_span_eq(rt_span_of(rt_str_data(&rt_strs(&a)[k]), rt_strs(&a)[k].n),
                                   rt_span_of(rt_str_data(&rt_strs(&b)[k]), rt_strs(&b)[k].n)));
        if (e->dtype != RT_STRING && rt_tensor_count(&a))
            assert_memory_equal(a.data, b.data, rt_tensor_bytes(&a));
        rt_tensor_clear(&a);
        rt_tensor_clear(&b);
    }
    rt_checkpoint_unref(plain);
}

enum rt_status ck_collect(void *arg, size_t off, const void *p, size_t n, struct rt_error *err)
{
    struct ck_collected *to = arg;
    (void)err;
    assert_int_equal(off, to->n);
    memcpy(to->bytes + off, p, n);
    to->n += n;
    return RT_OK;
}

void ck_copy_file(const char *from, const char *to, size_t cut, int flip)
{
    struct rt_error err = {0};
    char *p;
    size_t n;
    assert_ok(rt_file_read(from, 1 << 20, &p, &n, &err), &err);
    if (flip >= 0)
        p[flip / 8] ^= (char)(1 << flip % 8);
    assert_ok(rt_file_write(to, p, n - cut, &err), &err);
    free(p);
}

int ck_n_files(const char *folder)
{
    DIR *d = opendir(folder);
    int n = 0;

    assert_non_null(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n - 2; /* "." and ".." */
}
