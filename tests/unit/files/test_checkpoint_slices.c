/*
 * Tests checkpoints of both formats in which the tensor "a" of shape [6,4] is stored as slices that
 * may overlap, leave holes or lie outside of the tensor. The expected statuses and messages are
 * those of TensorFlow 2.21.
 */
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>

#include "runtime/base/crc32c.h"
#include "runtime/files/checkpoint.h"
#include "runtime/files/checkpoint_v1.h"
#include "runtime/files/slice_set.h"
#include "runtime/files/sstable.h"
#include "tests/support/folder.h"

enum { ROWS = 6, COLUMNS = 4, MAX_SLICES = 4 };

/* A slice of rows, and a slice of rows and columns. A length of -1 is the full dimension. */
#define S_ROWS(start_, n_)                                                                         \
    {                                                                                              \
        .rank = 2, .start = {start_, 0}, .length = { n_, -1 }                                      \
    }
#define S_PART(row_, rows_, column_, columns_)                                                     \
    {                                                                                              \
        .rank = 2, .start = {row_, column_}, .length = { rows_, columns_ }                         \
    }
#define S_FULL                                                                                     \
    {                                                                                              \
        .rank = 2, .length = { -1, -1 }                                                            \
    }

struct expected {
    enum rt_status code;
    const char *why;
};

static const struct form {
    int n;
    struct rt_slice slices[MAX_SLICES];
    const char *part; /* the part that is read; NULL for the whole tensor */
    struct expected v2, v1;
} forms[] = {
    {2, {S_ROWS(0, 3), S_ROWS(3, 3)}, NULL, {RT_OK, NULL}, {RT_OK, NULL}},
    {2, {S_ROWS(3, 3), S_ROWS(0, 3)}, "6 4 2,2:1,3", {RT_OK, NULL}, {RT_OK, NULL}},
    {3,
     {S_PART(0, 3, 0, 2), S_PART(0, 3, 2, 2), S_PART(3, 3, 0, 4)},
     NULL,
     {RT_OK, NULL},
     {RT_OK, NULL}},
    /* one slice twice, with and without the rest of the tensor */
    {3,
     {S_ROWS(0, 3), S_ROWS(0, 3), S_ROWS(3, 3)},
     NULL,
     {RT_INTERNAL, "Overlapping slices: existing slice = 0,3:-, new slice = 0,3:-"},
     {RT_INTERNAL, "Overlapping slices: existing slice = 0,3:-, new slice = 0,3:-"}},
    {2,
     {S_ROWS(0, 3), S_ROWS(0, 3)},
     NULL,
     {RT_INTERNAL, "Overlapping slices: existing slice = 0,3:-, new slice = 0,3:-"},
     {RT_INTERNAL, "Overlapping slices: existing slice = 0,3:-, new slice = 0,3:-"}},
    /* slices that overlap in some rows; also if these are not read */
    {2,
     {S_ROWS(0, 4), S_ROWS(2, 4)},
     NULL,
     {RT_INTERNAL, "Overlapping slices: existing slice = 0,4:-, new slice = 2,4:-"},
     {RT_INTERNAL, "Overlapping slices: existing slice = 0,4:-, new slice = 2,4:-"}},
    {3,
     {S_ROWS(4, 2), S_ROWS(0, 2), S_ROWS(2, 3)},
     "6 4 0,2:-",
     {RT_INTERNAL, "Overlapping slices: existing slice = 4,2:-, new slice = 2,3:-"},
     {RT_INTERNAL, "Overlapping slices: existing slice = 4,2:-, new slice = 2,3:-"}},
    {2,
     {S_ROWS(0, 4), S_ROWS(0, 2)},
     NULL,
     {RT_INTERNAL, "Overlapping slices: existing slice = 0,4:-, new slice = 0,2:-"},
     {RT_INTERNAL, "Overlapping slices: existing slice = 0,4:-, new slice = 0,2:-"}},
    {2,
     {S_PART(0, 3, 0, 3), S_PART(2, 4, 2, 2)},
     NULL,
     {RT_INTERNAL, "Overlapping slices: existing slice = 0,3:0,3, new slice = 2,4:2,2"},
     {RT_INTERNAL, "Overlapping slices: existing slice = 0,3:0,3, new slice = 2,4:2,2"}},
    {2,
     {S_FULL, S_PART(0, 6, 0, 4)},
     NULL,
     {RT_INTERNAL, "Overlapping slices: existing slice = -:-, new slice = 0,6:0,4"},
     {RT_INTERNAL, "Overlapping slices: existing slice = -:-, new slice = 0,6:0,4"}},
    /* holes */
    {2,
     {S_ROWS(0, 2), S_ROWS(4, 2)},
     NULL,
     {RT_INVALID_ARGUMENT, "Does not have sufficient slices for partitioned tensor a"},
     {RT_INVALID_ARGUMENT, "Error copying slice data"}},
    {2, {S_ROWS(0, 2), S_ROWS(4, 2)}, "6 4 4,2:1,2", {RT_OK, NULL}, {RT_OK, NULL}},
    /* slices outside of the tensor */
    {2,
     {S_ROWS(0, 3), S_ROWS(3, 4)},
     NULL,
     {RT_INTERNAL, "Extent in dimension 0 out of bounds: shape = [6,4], slice = 3,4:-"},
     {RT_INTERNAL, "Extent in dimension 0 out of bounds: shape = [6,4], slice = 3,4:-"}},
    {2,
     {S_FULL, S_ROWS(7, 1)},
     NULL,
     {RT_INTERNAL, "Extent in dimension 0 out of bounds: shape = [6,4], slice = 7,1:-"},
     {RT_INTERNAL, "Extent in dimension 0 out of bounds: shape = [6,4], slice = 7,1:-"}},
    /* empty slices */
    {3,
     {S_ROWS(0, 3), S_ROWS(1, 0), S_ROWS(3, 3)},
     NULL,
     {RT_OK, NULL},
     {RT_INVALID_ARGUMENT, "Expected non-negative start and positive length but got start = 1, "
                           "length = 0"}},
    {2,
     {S_FULL, S_ROWS(3, 0)},
     NULL,
     {RT_INTERNAL, "Overlapping slices: existing slice = -:-, new slice = 3,0:-"},
     {RT_INVALID_ARGUMENT, "Expected non-negative start and positive length but got start = 3, "
                           "length = 0"}},
    /* a slice of another rank */
    {1,
     {{.rank = 1, .length = {6}}},
     NULL,
     {RT_INTERNAL, "Mismatching ranks"},
     {RT_INTERNAL, "Mismatching ranks"}},
};
enum { N_FORMS = sizeof forms / sizeof *forms };

static struct rt_error err;

/* ---- messages ---- */

/* Appends a field of a message. The numbers of these tests are less than 128. */
static void add_number(struct rt_bytes *b, int number, int64_t value)
{
    assert_in_range(value, 0, 127);
    rt_bytes_addc(b, (char)(number << 3));
    rt_bytes_addc(b, (char)value);
}

static void add_bytes(struct rt_bytes *b, int number, const void *bytes, size_t n)
{
    assert_in_range(n, 0, 127);
    rt_bytes_addc(b, (char)(number << 3 | 2));
    rt_bytes_addc(b, (char)n);
    rt_bytes_add(b, bytes, n);
}

/* Appends the message `m` as a field, and clears it. */
static void add_message(struct rt_bytes *b, int number, struct rt_bytes *m)
{
    add_bytes(b, number, m->p, m->n);
    rt_bytes_clear(m);
}

static struct rt_bytes new_message(void)
{
    struct rt_bytes b;
    rt_bytes_init(&b, 1 << 20);
    return b;
}

static struct rt_bytes shape_message(int64_t rows, int64_t columns)
{
    struct rt_bytes shape = new_message();
    for (int i = 0; i < 2; i++) {
        struct rt_bytes dim = new_message();
        add_number(&dim, 1, i ? columns : rows);
        add_message(&shape, 2, &dim);
    }
    return shape;
}

static struct rt_bytes slice_message(const struct rt_slice *s)
{
    struct rt_bytes slice = new_message();
    for (int i = 0; i < s->rank; i++) {
        struct rt_bytes extent = new_message();
        if (s->length[i] >= 0) {
            add_number(&extent, 1, s->start[i]);
            add_number(&extent, 2, s->length[i]);
        }
        add_message(&slice, 1, &extent);
    }
    return slice;
}

/* ---- checkpoints ---- */

struct item {
    struct rt_bytes key, value;
};

static int by_key(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    const size_t n = x->key.n < y->key.n ? x->key.n : y->key.n;
    const int order = n ? memcmp(x->key.p, y->key.p, n) : 0;
    return order ? order : (x->key.n > y->key.n) - (x->key.n < y->key.n);
}

/* Makes a table of the items, without those whose key precedes them, and clears the items. */
static struct rt_sstable_writer table_of(struct item *items, size_t n)
{
    struct rt_sstable_writer w;
    rt_sstable_begin(&w, 0);
    qsort(items, n, sizeof *items, by_key);
    for (size_t i = 0; i < n; i++)
        if (!i || by_key(&items[i - 1], &items[i]) != 0)
            rt_sstable_add(&w, rt_span_of(items[i].key.p, items[i].key.n),
                           rt_span_of(items[i].value.p, items[i].value.n));
    for (size_t i = 0; i < n; i++) {
        rt_bytes_clear(&items[i].key);
        rt_bytes_clear(&items[i].value);
    }
    assert_true(rt_sstable_end(&w));
    return w;
}

static struct item new_item(const char *name, const struct rt_slice *s)
{
    struct item item = {.key = new_message(), .value = new_message()};
    if (s)
        rt_slice_key(&item.key, rt_span_str(name), s);
    else
        rt_bytes_adds(&item.key, name);
    return item;
}

/* The element in row r and column c of the tensor is COLUMNS * r + c + 1. Writes the elements of
 * the slice to `values` and returns their number. A slice that is not in the tensor has zeros. */
static int64_t slice_values(const struct rt_slice *s, float values[ROWS * COLUMNS], int64_t *rows,
                            int64_t *columns)
{
    const bool is_matrix = s->rank == 2;
    *rows = s->length[0] < 0 ? ROWS : s->length[0];
    *columns = !is_matrix || s->length[1] < 0 ? COLUMNS : s->length[1];
    int64_t n = 0;
    for (int64_t r = 0; r < *rows; r++)
        for (int64_t c = 0; c < *columns; c++, n++)
            values[n] = (float)(COLUMNS * (s->start[0] + r) + s->start[1] + c + 1);
    return n;
}

static void write_file(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

/* Writes the form as a checkpoint of version 2 with the prefix "v2". */
static void write_v2(const struct form *f)
{
    struct item items[MAX_SLICES + 2];
    struct rt_bytes data = new_message();
    size_t n = 0;
    items[n] = new_item("", NULL);
    add_number(&items[n++].value, 1, 1); /* number of shards */
    items[n] = new_item("a", NULL);
    add_number(&items[n].value, 1, RT_F32);
    struct rt_bytes shape = shape_message(ROWS, COLUMNS);
    add_message(&items[n].value, 2, &shape);
    for (int i = 0; i < f->n; i++) {
        struct rt_bytes slice = slice_message(&f->slices[i]);
        add_message(&items[n].value, 7, &slice);
    }
    n++;
    for (int i = 0; i < f->n; i++) {
        float values[(ROWS + 1) * COLUMNS];
        int64_t rows, columns;
        const size_t bytes =
            (size_t)slice_values(&f->slices[i], values, &rows, &columns) * sizeof *values;
        const uint32_t crc = rt_crc32c_mask(rt_crc32c(0, values, bytes));
        items[n] = new_item("a", &f->slices[i]);
        struct rt_bytes *value = &items[n++].value;
        shape = shape_message(rows, columns);
        add_number(value, 1, RT_F32);
        add_message(value, 2, &shape);
        rt_bytes_addc(value, 4 << 3); /* the offset, as a varint of two bytes */
        rt_bytes_addc(value, (char)((data.n & 127) | 128));
        rt_bytes_addc(value, (char)(data.n >> 7));
        add_number(value, 5, (int64_t)bytes);
        rt_bytes_addc(value, 6 << 3 | 5);
        rt_bytes_add(value, &crc, sizeof crc);
        rt_bytes_add(&data, values, bytes);
    }
    struct rt_sstable_writer w = table_of(items, n);
    write_file(folder_path("v2.index"), w.file.p, w.file.n);
    write_file(folder_path("v2.data-00000-of-00001"), data.p ? data.p : "", data.n);
    rt_sstable_clear(&w);
    rt_bytes_clear(&data);
}

/* Writes n slices as one file of a checkpoint of version 1. */
static void write_v1(const char *name, const struct rt_slice *slices, int n_slices)
{
    struct item items[MAX_SLICES + 1];
    struct rt_bytes tensor = new_message(), meta = new_message(), shape;
    size_t n = 0;
    items[n] = new_item("", NULL);
    add_bytes(&tensor, 1, "a", 1);
    shape = shape_message(ROWS, COLUMNS);
    add_message(&tensor, 2, &shape);
    add_number(&tensor, 3, RT_F32);
    for (int i = 0; i < n_slices; i++) {
        struct rt_bytes slice = slice_message(&slices[i]);
        add_message(&tensor, 4, &slice);
    }
    add_message(&meta, 1, &tensor);
    add_message(&items[n++].value, 1, &meta);
    for (int i = 0; i < n_slices; i++) {
        float values[(ROWS + 1) * COLUMNS];
        int64_t rows, columns;
        struct rt_bytes proto = new_message(), data = new_message();
        add_bytes(&proto, 5, values,
                  (size_t)slice_values(&slices[i], values, &rows, &columns) * sizeof *values);
        add_message(&data, 3, &proto);
        items[n] = new_item("a", &slices[i]);
        add_message(&items[n++].value, 2, &data);
    }
    struct rt_sstable_writer w = table_of(items, n);
    write_file(folder_path(name), w.file.p, w.file.n);
    rt_sstable_clear(&w);
}

/* ---- tests ---- */

static void check_result(const struct form *f, const struct expected *e, enum rt_status st,
                         struct rt_tensor *t)
{
    if (e->code) {
        assert_fails(st, e->code, &err, e->why);
        assert_null(t->data);
        return;
    }
    assert_ok(st, &err);
    assert_ok(rt_tensor_load(t, &err), &err);
    struct rt_slice part = S_FULL;
    int rank;
    int64_t dim[RT_MAX_RANK], rows, columns;
    float values[ROWS * COLUMNS];
    if (f->part)
        assert_ok(rt_slice_parse(rt_span_str(f->part), &rank, dim, &part, &err), &err);
    const int64_t n = slice_values(&part, values, &rows, &columns);
    assert_int_equal(rt_tensor_count(t), n);
    assert_memory_equal(t->data, values, (size_t)n * sizeof *values);
    rt_tensor_clear(t);
}

static struct rt_span part_of(const struct form *f)
{
    return f->part ? rt_span_str(f->part) : rt_span_of(NULL, 0);
}

static void slices_of_version_2_are_taken_or_refused_as_by_tensorflow(void **state)
{
    (void)state;
    folder_new();
    for (int i = 0; i < N_FORMS; i++) {
        struct rt_checkpoint *c;
        struct rt_tensor t;
        write_v2(&forms[i]);
        assert_ok(rt_checkpoint_open(&c, folder_path("v2"), NULL, &err), &err);
        check_result(&forms[i], &forms[i].v2,
                     rt_checkpoint_tensor(c, "a", part_of(&forms[i]), RT_F32, NULL, &t, &err), &t);
        rt_checkpoint_unref(c);
    }
    folder_remove();
}

static void slices_of_version_1_are_taken_or_refused_as_by_tensorflow(void **state)
{
    (void)state;
    folder_new();
    for (int i = 0; i < 2 * N_FORMS; i++) {
        const struct form *f = &forms[i / 2];
        const bool in_files = i % 2; /* whether each slice is in a file of its own */
        struct rt_checkpoint_v1 *c;
        struct rt_tensor t;
        char name[16];
        if (!in_files)
            write_v1("one", f->slices, f->n);
        for (int k = 0; k < f->n && in_files; k++) {
            snprintf(name, sizeof name, "f%d-%d", i, k);
            write_v1(name, &f->slices[k], 1);
        }
        snprintf(name, sizeof name, in_files ? "f%d-*" : "one", i);
        enum rt_status st = rt_checkpoint_v1_open(&c, folder_path(name), NULL, &err);
        t = (struct rt_tensor){0};
        if (!st)
            st = rt_checkpoint_v1_tensor(c, "a", part_of(f), RT_F32, NULL, &t, &err);
        check_result(f, &f->v1, st, &t);
        rt_checkpoint_v1_close(c);
    }
    folder_remove();
}

/* Returns whether some element of a tensor of 7 by 7 elements is in two of the slices. */
static bool some_overlap(const struct rt_slice *slices, int n)
{
    int count[7][7] = {{0}}, most = 0;
    for (int i = 0; i < n; i++) {
        struct rt_slice s = slices[i];
        rt_slice_resolve(&s, 2, (int64_t[]){7, 7});
        for (int64_t r = s.start[0]; r < s.start[0] + s.length[0]; r++)
            for (int64_t c = s.start[1]; c < s.start[1] + s.length[1]; c++)
                most = ++count[r][c] > most ? count[r][c] : most;
    }
    return most > 1;
}

static void random_slices_overlap_if_they_share_an_element(void **state)
{
    (void)state;
    int n_refused = 0;
    srand(1);
    for (int round = 0; round < 20000; round++) {
        struct rt_slice slices[6];
        const int n = 2 + rand() % 5;
        for (int i = 0; i < n; i++) {
            slices[i] = (struct rt_slice)S_FULL;
            for (int k = 0; k < 2; k++)
                if (rand() % 8) {
                    slices[i].length[k] = 1 + rand() % 3;
                    slices[i].start[k] = rand() % (8 - slices[i].length[k]);
                }
        }
        const enum rt_status st =
            rt_slice_set_check(slices, (size_t)n, 2, (int64_t[]){7, 7}, NULL, &err);
        assert_int_equal(st, some_overlap(slices, n) ? RT_INTERNAL : RT_OK);
        n_refused += st != RT_OK;
    }
    assert_in_range(n_refused, 2000, 18000);
}

static enum rt_status fail_at(void *arg, struct rt_error *why)
{
    return --*(int *)arg ? RT_OK : rt_fail(why, RT_CANCELLED, "cancelled");
}

static void many_slices_are_compared_in_few_steps_or_checked_meanwhile(void **state)
{
    (void)state;
    enum { N = 100000 };
    const int64_t dim[] = {N, N};
    struct rt_slice *slices = calloc(N, sizeof *slices);
    int left = 1000;
    const struct rt_check check = {fail_at, &left};
    assert_non_null(slices);
    for (int axis = 0; axis < 2; axis++) {
        for (int i = 0; i < N; i++) {
            slices[i] = (struct rt_slice)S_FULL;
            slices[i].start[axis] = (i + N / 2) % N;
            slices[i].length[axis] = 1;
        }
        assert_ok(rt_slice_set_check(slices, N, 2, dim, &check, &err), &err);
    }
    assert_in_range(left, 900, 1000);
    /* Half of the slices divide the rows of the upper half, the others the columns of the lower
     * one: every axis has many slices side by side. */
    for (int i = 0; i < N / 2; i++) {
        slices[i] = (struct rt_slice)S_PART(i, 1, 0, N / 2);
        slices[i + N / 2] = (struct rt_slice)S_PART(0, N / 2, N / 2 + i, 1);
    }
    assert_int_equal(rt_slice_set_check(slices, N, 2, dim, &check, &err), RT_CANCELLED);
    free(slices);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices_of_version_2_are_taken_or_refused_as_by_tensorflow),
        cmocka_unit_test(slices_of_version_1_are_taken_or_refused_as_by_tensorflow),
        cmocka_unit_test(random_slices_overlap_if_they_share_an_element),
        cmocka_unit_test(many_slices_are_compared_in_few_steps_or_checked_meanwhile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
