/* Ops that hash strings into buckets: StringToHashBucketFast, StringToHashBucket and
 * StringToHashBucketStrong. */
#include "kernels/string/each.h"
#include "kernels/string/farmhash.h"

static enum rt_status buckets(struct rt_run *r, int kind)
{
    const uint64_t n = (uint64_t)rt_attr_int(r->node, "num_buckets");
    int64_t *o = kn_out(r, 0, r->in[0].rank, r->in[0].dim);
    uint64_t key[2] = {0, 0};
    const int64_t *v;
    int64_t left = RT_WORK;
    struct kn_reader read = {.r = r, .left = &left};

    if (!o)
        return r->err->code;
    if (n == 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "num_buckets must be positive");
    if (kind == 2) {
        if (rt_attr_ints(r->node, "key", &v) != 2)
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "Key must have 2 elements");
        key[0] = (uint64_t)v[0];
        key[1] = (uint64_t)v[1];
    }
    for (int64_t i = 0; i < rt_tensor_count(&r->in[0]); i++) {
        const struct rt_str *s = &rt_strs(&r->in[0])[i];
        const char *p = rt_str_data(s);
        if (kn_spend_string(r, &left, s->n))
            return r->err->code;
        const uint64_t h = kind == 0   ? kn_fingerprint64(p, s->n, &read)
                           : kind == 1 ? kn_murmur64(p, s->n, UINT64_C(0xDECAFCAFFE), &read)
                                       : kn_sip_hash(key, p, s->n, &read);
        if (read.st)
            return read.st;
        o[i] = (int64_t)(h % n);
    }
    return RT_OK;
}

static enum rt_status fast_run(struct rt_run *r)
{
    return buckets(r, 0);
}

static enum rt_status old_run(struct rt_run *r)
{
    return buckets(r, 1);
}

static enum rt_status strong_run(struct rt_run *r)
{
    return buckets(r, 2);
}

KN_EACH_STRING(string_to_hash_bucket_fast, "StringToHashBucketFast", fast_run)
KN_EACH_STRING(string_to_hash_bucket, "StringToHashBucket", old_run)
KN_EACH_STRING(string_to_hash_bucket_strong, "StringToHashBucketStrong", strong_run)
