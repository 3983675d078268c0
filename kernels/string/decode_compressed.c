/* DecodeCompressed inflates strings. As in TensorFlow, a stream that ends early yields the bytes
 * decoded so far, bytes after the end of a zlib stream are ignored, and gzip members may follow one
 * another. */
#define ZLIB_CONST /* makes zlib declare next_in as a pointer to const */
#include <zlib.h>

#include "kernels/string/each.h"

enum {
    CHUNK = 256 << 10,   /* number of bytes inflated between two calls of rt_run_spend */
    GZIP_BITS = 16 + 15, /* zlib's windowBits for gzip headers */
    /* Memory that zlib allocates for a stream: the window of 32 KiB and its state. */
    STREAM_BYTES = 64 << 10,
    COST = 4, /* work per byte */
};

enum format { NONE, ZLIB, GZIP };

static enum rt_status format_of(const struct rt_node *n, enum format *out, struct rt_error *err)
{
    const struct rt_span type = rt_attr_str(n, "compression_type");

    *out = rt_span_is(type, "ZLIB") ? ZLIB : rt_span_is(type, "GZIP") ? GZIP : NONE;
    if (*out != NONE || type.n == 0)
        return RT_OK;
    if (rt_span_is(type, "ZSTD"))
        return rt_fail(err, RT_UNIMPLEMENTED, "DecodeCompressed cannot decompress ZSTD");
    return rt_fail(err, RT_INVALID_ARGUMENT,
                   "Only ZLIB, ZSTD, GZIP or NONE are supported compressions");
}

/* Inflates the n bytes at p and appends the result to b. */
static enum rt_status inflate_text(struct rt_run *r, int64_t *left, z_stream *z, bool is_gzip,
                                   struct rt_span text, struct rt_bytes *b)
{
    const unsigned char *end = text.p + text.n;
    int status = Z_OK;

    z->next_in = text.p;
    while (status == Z_OK && z->next_in < end) {
        if (!rt_bytes_reserve(b, CHUNK))
            return kn_text_failed(b);
        const size_t in = kn_text_chunk((size_t)(end - z->next_in));
        z->avail_in = (uInt)in;
        z->next_out = (unsigned char *)b->p + b->n;
        z->avail_out = CHUNK;
        status = inflate(z, Z_NO_FLUSH);
        const size_t out = CHUNK - z->avail_out;
        b->n += out;
        if (rt_run_spend(r, left, COST * (int64_t)(out + in - z->avail_in)))
            return r->err->code;
        if (status == Z_BUF_ERROR && out == CHUNK)
            status = Z_OK;
        if (status == Z_STREAM_END && is_gzip && z->next_in < end)
            status = inflateReset(z);
    }
    if (status == Z_OK || status == Z_STREAM_END || status == Z_BUF_ERROR)
        return RT_OK;
    if (status == Z_MEM_ERROR)
        return rt_fail_memory(r->err, "a decompressed string", b->n);
    return rt_fail(r->err, RT_DATA_LOSS, "inflate() failed with error %d%s%s", status,
                   z->msg ? ": " : "", z->msg ? z->msg : "");
}

static enum rt_status inflate_all(struct rt_run *r, enum format format, struct rt_str *o)
{
    z_stream z = {0};
    struct rt_bytes b;
    int64_t left = RT_WORK;
    enum rt_status st = RT_OK;

    if (inflateInit2(&z, format == GZIP ? GZIP_BITS : MAX_WBITS) != Z_OK)
        return rt_fail_memory(r->err, "a zlib stream", STREAM_BYTES);
    kn_text_begin(&b, r);
    for (int64_t i = 0; i < rt_tensor_count(&r->in[0]) && !st; i++) {
        const struct rt_str *s = &rt_strs(&r->in[0])[i];
        inflateReset(&z);
        b.n = 0;
        st = kn_spend_string(r, &left, 1000);
        if (!st)
            st = inflate_text(r, &left, &z, format == GZIP, rt_span_of(rt_str_data(s), s->n), &b);
        if (!st)
            st = kn_set_text(r, &left, &o[i], b.p, b.n);
    }
    kn_text_end(&b);
    inflateEnd(&z);
    return st;
}

static enum rt_status decompress_run(struct rt_run *r)
{
    enum format format;
    enum rt_status st = format_of(r->node, &format, r->err);
    struct rt_str *o = st ? NULL : kn_out_strs(r);

    if (!o)
        return r->err->code;
    if (format == NONE)
        return kn_copy_run(r, RT_STRING, o, r->in[0].data, rt_tensor_count(&r->in[0]));
    st = rt_pool_charge(rt_run_pool(r), STREAM_BYTES, "a zlib stream", r->err);
    if (st)
        return st;
    st = inflate_all(r, format, o);
    rt_pool_discharge(rt_run_pool(r), STREAM_BYTES);
    return st;
}

KN_EACH_STRING(decode_compressed, "DecodeCompressed", decompress_run)
