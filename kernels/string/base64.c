/* EncodeBase64 and DecodeBase64 use the URL-safe alphabet. */
#include "kernels/string/each.h"

#include <string.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

static enum rt_status encode_run(struct rt_run *r)
{
    const bool pad = rt_attr_bool(r->node, "pad");
    struct rt_str *o = kn_out_strs(r);
    int64_t left = RT_WORK;

    if (!o)
        return r->err->code;
    for (int64_t i = 0; i < rt_tensor_count(&r->in[0]); i++) {
        const struct rt_str *s = &rt_strs(&r->in[0])[i];
        const unsigned char *p = (const unsigned char *)rt_str_data(s);
        const size_t rest = s->n % 3;
        const size_t n = s->n / 3 * 4 + (rest ? (pad ? 4 : rest + 1) : 0);
        char *q = rt_str_resize(&o[i], rt_run_pool(r), n, r->err);
        if (!q)
            return r->err->code;
        if (kn_spend_string(r, &left, 0))
            return r->err->code;
        for (size_t k = 0; k < s->n; k += 3) {
            const size_t more = s->n - k;
            const uint32_t v = (uint32_t)p[k] << 16 | (more > 1 ? (uint32_t)p[k + 1] << 8 : 0) |
                               (more > 2 ? (uint32_t)p[k + 2] : 0);
            *q++ = alphabet[v >> 18];
            *q++ = alphabet[v >> 12 & 63];
            if (more > 1 || pad)
                *q++ = more > 1 ? alphabet[v >> 6 & 63] : '=';
            if (more > 2 || pad)
                *q++ = more > 2 ? alphabet[v & 63] : '=';
            if (k % KN_TEXT_CHUNK < 3 && rt_run_spend(r, &left, 4 * KN_TEXT_CHUNK))
                return r->err->code;
        }
    }
    return RT_OK;
}

KN_EACH_STRING(encode_base64, "EncodeBase64", encode_run)

static enum rt_status decode_one(struct rt_run *r, const struct rt_str *s, struct rt_str *out,
                                 int64_t *left)
{
    const char *p = rt_str_data(s);
    size_t n = s->n;

    if (n % 4 == 0 && n && p[n - 1] == '=')
        n -= p[n - 2] == '=' ? 2 : 1;
    if (n % 4 == 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Base64 string length cannot be 1 modulo 4.");
    char *q = rt_str_resize(out, rt_run_pool(r), n / 4 * 3 + (n % 4 ? n % 4 - 1 : 0), r->err);
    if (!q)
        return r->err->code;
    uint32_t v = 0;
    for (size_t i = 0; i < n; i++) {
        if (i % KN_TEXT_CHUNK == 0 && rt_run_spend(r, left, 4 * KN_TEXT_CHUNK))
            return r->err->code;
        const char *c = p[i] ? strchr(alphabet, p[i]) : NULL;
        if (!c)
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "Invalid character found in base64.");
        v = v << 6 | (uint32_t)(c - alphabet);
        if (i % 4 == 1)
            *q++ = (char)(v >> 4);
        else if (i % 4 == 2)
            *q++ = (char)(v >> 2);
        else if (i % 4 == 3)
            *q++ = (char)v;
    }
    return RT_OK;
}

static enum rt_status decode_run(struct rt_run *r)
{
    struct rt_str *o = kn_out_strs(r);
    int64_t left = RT_WORK;

    if (!o)
        return r->err->code;
    for (int64_t i = 0; i < rt_tensor_count(&r->in[0]); i++) {
        enum rt_status st = kn_spend_string(r, &left, 0);
        if (!st)
            st = decode_one(r, &rt_strs(&r->in[0])[i], &o[i], &left);
        if (st)
            return st;
    }
    return RT_OK;
}

KN_EACH_STRING(decode_base64, "DecodeBase64", decode_run)
