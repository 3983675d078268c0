/* Compresses response bodies and inflates request bodies. */
#include "server/http/rest_call.h"

#include <zlib.h>

enum {
    LEAST_BYTES = 1024, /* minimum size in bytes of a response that is compressed */
    /* compression level; higher levels hardly improve the compression of numbers in text */
    LEVEL = 1,
    /* number of bytes compressed between two checks of the deadline; compressing them takes a few
     * milliseconds */
    PIECE = 256 << 10,
    COST = 16, /* cost of compressing a byte relative to copying it */
    /* maximum size in bytes of an inflated body, as in TensorFlow Serving */
    MOST_INFLATED = 100 << 20,
};

/* Returns the status of a body that inflate has not read to its end, or not as a whole. */
static enum rt_status fail_inflate(struct srv_rest_request *r, int zr, size_t n, size_t limit,
                                   size_t left)
{
    if (zr == Z_BUF_ERROR && n == limit)
        return rt_fail(&r->err, RT_INVALID_ARGUMENT,
                       "the request's body has more than %zu bytes when it is inflated, the limit "
                       "for compressed bodies",
                       limit);
    if (zr != Z_STREAM_END)
        return rt_fail(&r->err, RT_INVALID_ARGUMENT,
                       "the request's body of %zu bytes does not inflate: %s; its header "
                       "Content-Encoding says that it is compressed",
                       r->body.n,
                       zr == Z_BUF_ERROR ? "it ends too early"
                                         : "it is malformed as gzip and as deflate");
    return rt_fail(&r->err, RT_INVALID_ARGUMENT,
                   "the request's body has %zu bytes after the end of its compressed data", left);
}

enum rt_status srv_rest_inflate(struct srv_rest_request *r, size_t most)
{
    const size_t limit = r->body.limit < MOST_INFLATED ? r->body.limit : MOST_INFLATED;
    const size_t charged = r->charged;
    struct rt_bytes out;
    z_stream z = {0};
    enum rt_status st = RT_OK;
    int zr = Z_OK;
    rt_bytes_init(&out, most < limit ? most : limit);
    if (r->body.n > UINT32_MAX || inflateInit2(&z, 15 + 32) != Z_OK)
        return rt_fail_memory(&r->err, "a compressed body", r->body.n);
    z.next_in = (Bytef *)r->body.p;
    z.avail_in = (uInt)r->body.n;
    while (zr == Z_OK) {
        size_t before = out.capacity, step = out.capacity ? out.capacity : 4096;
        if (step > out.limit - out.n)
            step = out.limit - out.n;
        if (step == 0) { /* the inflated body exceeds out.limit */
            zr = Z_BUF_ERROR;
            break;
        }
        if (!rt_bytes_reserve(&out, step)) {
            st = rt_fail_memory(&r->err, "the request's body, inflated,", out.n + step);
            break;
        }
        if (out.capacity > before && !srv_rest_charge(r, out.capacity - before)) {
            st = srv_rest_over_budget(r, out.capacity - before, "the request's body, inflated,");
            break;
        }
        size_t capacity = out.capacity - out.n - 1;
        if (capacity > out.limit - out.n)
            capacity = out.limit - out.n;
        z.next_out = (Bytef *)(out.p + out.n);
        z.avail_out = capacity > UINT32_MAX ? UINT32_MAX : (uInt)capacity;
        uInt had = z.avail_out;
        /* inflate allocates zlib's window in its first call, so memory may run out */
        zr = inflate(&z, Z_NO_FLUSH);
        if (zr == Z_MEM_ERROR)
            st = rt_fail_memory(&r->err, "a compressed body", r->body.n);
        out.n += had - z.avail_out;
    }
    inflateEnd(&z);
    /* the inflated body would exceed `most` bytes */
    if (!st && zr == Z_BUF_ERROR && out.n == most) {
        rt_bytes_clear(&out);
        srv_budget_give(&r->server->in_flight, &r->charged, r->charged - charged);
        return RT_OK;
    }
    r->gzip = false;
    if (!st && (zr != Z_STREAM_END || z.avail_in) && r->route.protocol &&
        r->route.protocol->checks_coding)
        st = fail_inflate(r, zr, out.n, out.limit, z.avail_in);
    if (zr != Z_STREAM_END)
        out.n = 0;
    out.limit = r->body.limit;
    rt_bytes_clear(&r->body);
    r->body = out;
    return st;
}

bool srv_rest_takes_gzip(const struct srv_rest_call *req, const struct rt_bytes *body)
{
    return req->accepts_gzip && req->pub.server->options.rest_api_enable_compression &&
           !body->failed && body->n >= LEAST_BYTES && body->n <= UINT32_MAX;
}

bool srv_rest_compress(struct rt_bytes *out, const struct rt_bytes *body,
                       struct srv_cancellation *cancellation)
{
    z_stream z = {0};
    int zr = Z_OK;
    size_t left = body->n;
    if (deflateInit2(&z, LEVEL, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return false;
    z.next_in = (Bytef *)body->p;
    while (zr == Z_OK) {
        if (!z.avail_in) {
            z.avail_in = (uInt)(left < PIECE ? left : PIECE);
            left -= z.avail_in;
            if (!srv_should_continue(cancellation, (size_t)z.avail_in * COST))
                break;
        }
        if (out->capacity <= out->n + 1) {
            size_t step = out->capacity ? out->capacity : body->n / 4;
            if (step > out->limit - out->n)
                step = out->limit - out->n;
            if (step == 0 || !rt_bytes_reserve(out, step))
                break;
        }
        const uInt capacity = (uInt)(out->capacity - out->n - 1);
        z.next_out = (Bytef *)(out->p + out->n);
        z.avail_out = capacity;
        zr = deflate(&z, left ? Z_NO_FLUSH : Z_FINISH);
        out->n += capacity - z.avail_out;
        if (zr == Z_BUF_ERROR)
            zr = Z_OK; /* deflate has filled the output buffer */
    }
    deflateEnd(&z);
    return zr == Z_STREAM_END;
}

void srv_rest_deflate(struct srv_rest_call *req)
{
    struct srv_rest_request *r = &req->pub;
    struct rt_bytes out;
    if (req->deflated || !srv_rest_takes_gzip(req, &r->out))
        return;
    /* The response stays uncompressed if the compressed body would not be smaller or would exceed
     * the budget, or if the compression is cancelled. */
    struct srv_cancellation cancellation = r->job.done
                                               ? srv_job_cancellation(&r->job)
                                               : (struct srv_cancellation){.deadline_ns = RT_NEVER};
    rt_bytes_init(&out, r->out.n);
    out.may_grow = srv_rest_may_grow;
    out.grow_arg = r;
    req->deflated = srv_rest_compress(&out, &r->out, &cancellation);
    r->refused_bytes = 0;
    if (req->deflated) {
        out.limit = r->out.limit;
        rt_bytes_clear(&r->out);
        r->out = out;
    } else {
        rt_bytes_clear(&out);
    }
}
