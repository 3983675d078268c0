#include "server/base/quota.h"

#include <gnutls/crypto.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

#include "runtime/base/thread.h"

enum {
    WAYS = 8, /* number of buckets among which a client's bucket is searched for */
    SEED_BYTES = 16,
    MAX_RETRY_S = 3600,
    SHOWN_TAG_BYTES = 4, /* of a tag, for a key that is a secret */
};

struct bucket {
    unsigned char tag[16];
    int64_t at_ns; /* time at which the tokens were counted, or 0 for an unused bucket */
    double requests, bytes;
};

struct srv_quota {
    struct srv_quota_limits limits;
    bool has_secret_keys;
    unsigned char seed[SEED_BYTES];
    struct rt_mutex mu;
    size_t n_sets;
    struct bucket shared;   /* guarded by mu */
    struct bucket *buckets; /* n_sets * WAYS buckets; guarded by mu */
};

static bool ends_in(const char *s, const char *end)
{
    const size_t n = strlen(s), k = strlen(end);

    return n >= k && strcasecmp(s + n - k, end) == 0;
}

/* Returns whether the values of a header are secrets. */
static bool is_secret(const char *name)
{
    static const char *const ends[] = {"authorization", "cookie", "key", "token", "secret"};

    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (ends_in(name, ends[i]))
            return true;
    return false;
}

struct srv_quota *srv_quota_new(const struct srv_quota_limits *limits)
{
    struct srv_quota *q = calloc(1, sizeof *q);

    if (!q)
        return NULL;
    q->limits = *limits;
    q->has_secret_keys = is_secret(limits->key_name);
    q->n_sets = ((size_t)limits->n_clients + WAYS - 1) / WAYS;
    q->buckets = calloc(q->n_sets, WAYS * sizeof *q->buckets);
    rt_mutex_init(&q->mu);
    if (!q->buckets || getrandom(q->seed, sizeof q->seed, 0) != sizeof q->seed) {
        srv_quota_free(q);
        return NULL;
    }
    return q;
}

void srv_quota_free(struct srv_quota *q)
{
    if (!q)
        return;
    rt_mutex_clear(&q->mu);
    free(q->buckets);
    free(q);
}

static void show(const struct srv_quota *q, struct rt_span key, struct srv_quota_client *client)
{
    static const char digits[] = "0123456789abcdef";
    char *to = client->shown;

    if (key.n && q->has_secret_keys) {
        *to++ = '#';
        for (int i = 0; i < SHOWN_TAG_BYTES; i++) {
            *to++ = digits[client->tag[i] >> 4];
            *to++ = digits[client->tag[i] & 15];
        }
    } else {
        for (size_t i = 0; i < key.n && i < sizeof client->shown - 1; i++)
            *to++ = key.p[i] >= ' ' && key.p[i] < 0x7f ? (char)key.p[i] : '?';
    }
    *to = '\0';
}

struct srv_quota_client srv_quota_client_of(const struct srv_quota *q, struct rt_span key)
{
    unsigned char digest[32] = {0};
    struct srv_quota_client client = {.shown = ""};
    gnutls_hash_hd_t hash;

    if (!gnutls_hash_init(&hash, GNUTLS_DIG_SHA256)) {
        const bool is_whole =
            !gnutls_hash(hash, q->seed, SEED_BYTES) && (!key.n || !gnutls_hash(hash, key.p, key.n));
        gnutls_hash_deinit(hash, digest);
        if (!is_whole)
            memset(digest, 0, sizeof digest); /* clients without a hash are one client */
    }
    memcpy(client.tag, digest, sizeof client.tag);
    show(q, key, &client);
    return client;
}

struct rt_span srv_quota_shown(const struct srv_quota_client *client)
{
    return *client->shown ? rt_span_str(client->shown) : rt_span_of(NULL, 0);
}

static bool has_limits(const struct srv_quota *q)
{
    return q->limits.requests_per_s > 0 || q->limits.bytes_per_s > 0;
}

/* A bucket holds the tokens of one second, but at least one request. */
static double most_requests(const struct srv_quota *q)
{
    return fmax(q->limits.requests_per_s, 1);
}

static void refill(const struct srv_quota *q, struct bucket *b, int64_t now_ns)
{
    const double s = b->at_ns ? (double)(now_ns - b->at_ns) / 1e9 : INFINITY;

    if (s <= 0)
        return;
    b->requests = fmin(b->requests + s * fmax(q->limits.requests_per_s, 1e-9), most_requests(q));
    b->bytes = fmin(b->bytes + s * fmax(q->limits.bytes_per_s, 1e-9), q->limits.bytes_per_s);
    b->at_ns = now_ns > 0 ? now_ns : 1;
}

static bool is_full(const struct srv_quota *q, const struct bucket *b)
{
    return (q->limits.requests_per_s <= 0 || b->requests >= most_requests(q)) &&
           (q->limits.bytes_per_s <= 0 || b->bytes >= q->limits.bytes_per_s);
}

/* Returns the client's bucket, refilled, or the shared one. */
static struct bucket *find_locked(struct srv_quota *q, const struct srv_quota_client *client,
                                  int64_t now_ns) RT_REQUIRES(q->mu)
{
    struct bucket *free_one = NULL;
    uint64_t set;

    memcpy(&set, client->tag, sizeof set);
    struct bucket *first = &q->buckets[set % q->n_sets * WAYS];
    for (struct bucket *b = first; b < first + WAYS; b++) {
        const bool is_used = b->at_ns != 0;
        if (is_used || !free_one)
            refill(q, b, now_ns);
        if (is_used && memcmp(b->tag, client->tag, sizeof b->tag) == 0)
            return b;
        if (!free_one && is_full(q, b))
            free_one = b;
    }
    if (!free_one) {
        refill(q, &q->shared, now_ns);
        return &q->shared;
    }
    memcpy(free_one->tag, client->tag, sizeof free_one->tag);
    return free_one;
}

/* Returns the time in seconds until the bucket is no longer empty, or 0 if it is not empty. Sets
 * *flag to the flag with the limit for which the client waits longest. */
static double wait_s(const struct srv_quota *q, const struct bucket *b, const char **flag)
{
    double s = 0;

    *flag = "quota_requests_per_second";
    if (q->limits.requests_per_s > 0 && b->requests < 1)
        s = (1 - b->requests) / q->limits.requests_per_s;
    if (q->limits.bytes_per_s > 0 && b->bytes <= 0) {
        const double bytes_s = (1 - b->bytes) / q->limits.bytes_per_s;
        if (bytes_s > s)
            *flag = "quota_bytes_per_second";
        s = fmax(s, bytes_s);
    }
    return s;
}

enum srv_quota_answer srv_quota_take(struct srv_quota *q, const struct srv_quota_client *client,
                                     uint64_t bytes, int64_t now_ns, int64_t *retry_s,
                                     const char **flag)
{
    if (!has_limits(q))
        return SRV_QUOTA_TAKEN;
    rt_mutex_lock(&q->mu);
    struct bucket *b = find_locked(q, client, now_ns);
    const bool is_shared = b == &q->shared;
    const double wait = wait_s(q, b, flag);
    if (wait <= 0) {
        b->requests -= 1;
        b->bytes -= (double)bytes;
    }
    rt_mutex_unlock(&q->mu);
    if (wait > 0) {
        *retry_s = wait < MAX_RETRY_S ? (int64_t)ceil(wait) : MAX_RETRY_S;
        return SRV_QUOTA_REFUSED;
    }
    return is_shared ? SRV_QUOTA_TAKEN_SHARED : SRV_QUOTA_TAKEN;
}

enum rt_status srv_quota_fail(const char *flag, int64_t retry_s,
                              const struct srv_quota_client *client, struct rt_error *err)
{
    const bool is_named = *client->shown;

    return rt_fail(err, RT_RESOURCE_EXHAUSTED,
                   "the client %s%s%s has used up its quota (--%s); retry after %lld s",
                   is_named ? "\"" : "", is_named ? client->shown : "without a name",
                   is_named ? "\"" : "", flag, (long long)retry_s);
}

enum rt_status srv_quota_fail_repeated(const char *name, struct rt_error *err)
{
    return rt_fail(err, RT_INVALID_ARGUMENT,
                   "the request has \"%.100s\", which names the client for its quota "
                   "(--quota_client), more than once",
                   name);
}

void srv_quota_charge(struct srv_quota *q, const struct srv_quota_client *client, uint64_t bytes,
                      int64_t now_ns)
{
    if (!has_limits(q))
        return;
    rt_mutex_lock(&q->mu);
    find_locked(q, client, now_ns)->bytes -= (double)bytes;
    rt_mutex_unlock(&q->mu);
}
