#include "kernels/string/summary_bytes.h"

#include "kernels/array/array.h"
#include "kernels/string/text.h"

/* TensorFlow's serializer limits a message to 2 GiB. */
#define MAX_MESSAGE ((size_t)INT32_MAX)

static size_t varint_size(uint64_t v)
{
    size_t n = 1;

    for (; v > 0x7f; v >>= 7)
        n++;
    return n;
}

void kn_put_varint(struct rt_bytes *b, uint64_t v)
{
    for (; v > 0x7f; v >>= 7)
        rt_bytes_addc(b, (char)(v | 0x80));
    rt_bytes_addc(b, (char)v);
}

void kn_put_length(struct rt_bytes *b, char tag, size_t n)
{
    rt_bytes_addc(b, tag);
    kn_put_varint(b, n);
}

enum rt_status kn_put_bytes(struct rt_run *r, struct rt_bytes *b, char tag, const void *p, size_t n)
{
    kn_put_length(b, tag, n);
    return kn_text_add(r, &r->left, b, p, n);
}

size_t kn_field_size(size_t n)
{
    return 1 + varint_size(n) + n;
}

enum rt_status kn_put_summary(struct rt_run *r, struct rt_bytes *b)
{
    struct rt_str *o = b->failed ? NULL : kn_out(r, 0, 0, NULL);
    int64_t left = RT_WORK;
    enum rt_status st = b->failed ? kn_text_failed(b) : o ? RT_OK : r->err->code;

    if (!st && b->n > MAX_MESSAGE)
        st = rt_fail(r->err, RT_INVALID_ARGUMENT, "a summary of more than 2 GiB");
    if (!st)
        st = kn_set_text(r, &left, o, b->p, b->n);
    kn_text_end(b);
    return st;
}
