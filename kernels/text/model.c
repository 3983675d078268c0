#include "kernels/text/model.h"

/* ---- FlatBuffers ---- */

static bool fits(struct rt_span b, size_t at, size_t n)
{
    return at <= b.n && n <= b.n - at;
}

/* Reads a little-endian number of `size` bytes. Returns false if it lies outside the bytes. */
static bool read(struct rt_span b, size_t at, size_t size, uint32_t *out)
{
    *out = 0;
    if (!fits(b, at, size))
        return false;
    for (size_t i = 0; i < size; i++)
        *out |= (uint32_t)b.p[at + i] << (8 * i);
    return true;
}

/* Reads the table at offset `root`. */
static bool open_table(struct rt_span bytes, size_t root, struct kn_flat_table *out)
{
    struct kn_flat_table t = {.bytes = bytes};
    uint32_t back, vtable_size, table_size;

    if (!read(bytes, root, sizeof back, &back))
        return false;
    /* The table begins with the signed distance back to its vtable. */
    const int64_t vtable = (int64_t)root - (int32_t)back;
    if (vtable < 0)
        return false;
    t.table = root;
    t.vtable = (size_t)vtable;
    if (!read(bytes, t.vtable, 2, &vtable_size) || !read(bytes, t.vtable + 2, 2, &table_size))
        return false;
    if (vtable_size < 4 || !fits(bytes, t.vtable, vtable_size) || !fits(bytes, root, table_size))
        return false;
    t.table_size = table_size;
    t.n_fields = vtable_size / 2 - 2;
    *out = t;
    return true;
}

bool kn_flat_open(struct rt_span bytes, struct kn_flat_table *out)
{
    uint32_t root;

    return read(bytes, 0, sizeof root, &root) && open_table(bytes, root, out);
}

/* Sets *at to the offset of a field in the bytes, or to 0 if the table lacks the field. */
static bool find(const struct kn_flat_table *t, size_t field, size_t size, size_t *at)
{
    uint32_t offset;

    *at = 0;
    if (field >= t->n_fields)
        return true;
    if (!read(t->bytes, t->vtable + 4 + 2 * field, 2, &offset))
        return false;
    if (offset == 0)
        return true;
    if (offset > t->table_size || size > t->table_size - offset)
        return false;
    *at = t->table + offset;
    return true;
}

bool kn_flat_number(const struct kn_flat_table *t, size_t field, size_t size, uint32_t *out)
{
    size_t at;

    *out = 0;
    return find(t, field, size, &at) && (at == 0 || read(t->bytes, at, size, out));
}

bool kn_flat_vector(const struct kn_flat_table *t, size_t field, size_t size, struct kn_vector *out)
{
    uint32_t offset, n;
    size_t at;

    *out = (struct kn_vector){.size = size};
    if (!find(t, field, sizeof offset, &at))
        return false;
    if (at == 0)
        return true;
    if (!read(t->bytes, at, sizeof offset, &offset) || !read(t->bytes, at + offset, sizeof n, &n) ||
        n > (t->bytes.n - (at + offset) - sizeof n) / size)
        return false;
    out->p = t->bytes.p + at + offset + sizeof n;
    out->n = n;
    return true;
}

bool kn_flat_has(const struct kn_flat_table *t, size_t field)
{
    size_t at;

    return find(t, field, 1, &at) && at != 0;
}

bool kn_flat_child(const struct kn_flat_table *t, size_t field, struct kn_flat_table *out)
{
    uint32_t offset;
    size_t at;

    return find(t, field, sizeof offset, &at) && at != 0 &&
           read(t->bytes, at, sizeof offset, &offset) && open_table(t->bytes, at + offset, out);
}

bool kn_flat_string(const struct kn_flat_table *t, const struct kn_vector *strings, size_t i,
                    struct rt_span *out)
{
    const size_t at = (size_t)(strings->p - t->bytes.p) + i * sizeof(uint32_t);
    uint32_t offset, n;

    if (!read(t->bytes, at, sizeof offset, &offset) || !read(t->bytes, at + offset, sizeof n, &n) ||
        !fits(t->bytes, at + offset + sizeof n, n))
        return false;
    *out = rt_span_of(t->bytes.p + at + offset + sizeof n, n);
    return true;
}
