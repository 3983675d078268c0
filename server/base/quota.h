/*
 * Quotas of clients: requests and bytes per second. Each client has a token bucket, which is full
 * after a second without requests. A request is refused while its client's bucket is empty. A
 * request with more bytes than a bucket holds is accepted if the bucket is not empty, and the
 * client then waits until the bucket has refilled.
 *
 * The number of buckets is fixed, so that memory does not grow with the number of keys. A full
 * bucket holds no information, so another client may take it over. If a client has no bucket and
 * none is full, it uses one further bucket, which all clients without a bucket of their own share.
 *
 * Owner: the server. Threads: any thread may call these functions.
 */
#ifndef SRV_QUOTA_H
#define SRV_QUOTA_H

#include <stdint.h>

#include "runtime/base/status.h"

struct srv_quota_limits {
    double requests_per_s, bytes_per_s; /* 0 means no limit */
    int64_t n_clients;                  /* number of buckets, at least 1 */
    const char *key_name;               /* --quota_client: what holds the keys of clients */
};

enum { SRV_QUOTA_SHOWN = 65 };

/* A client, identified by a hash of its key. The hash has a secret seed, so that a client cannot
 * choose a key that has the tag of another client. */
struct srv_quota_client {
    unsigned char tag[16];
    /*
     * The client's name for messages and logs: the first bytes of its key, with '?' for each byte
     * outside of printable ASCII. If `key_name` is a header that holds a secret (authorization,
     * cookie, or a name that ends in key, token or secret), it is '#' and the first bytes of the
     * tag, which is the same for a key as long as the process runs. Empty if the key is.
     */
    char shown[SRV_QUOTA_SHOWN];
};

struct srv_quota;
/* Returns NULL if memory or random bytes are not available. */
struct srv_quota *srv_quota_new(const struct srv_quota_limits *limits);
void srv_quota_free(struct srv_quota *q); /* `q` may be NULL */

/* Returns the client with the key `key`, whose length the limit on headers bounds. */
struct srv_quota_client srv_quota_client_of(const struct srv_quota *q, struct rt_span key);

enum srv_quota_answer {
    SRV_QUOTA_TAKEN,
    SRV_QUOTA_TAKEN_SHARED, /* the client has no bucket of its own */
    SRV_QUOTA_REFUSED,
};
/* Takes a request of `bytes` bytes from the client's bucket at the monotonic time now_ns. If the
 * request is refused, sets *retry_s to the number of seconds, at least 1, after which the bucket is
 * no longer empty, and *flag to the name of the flag with the limit. Without limits, accepts every
 * request. */
enum srv_quota_answer srv_quota_take(struct srv_quota *q, const struct srv_quota_client *client,
                                     uint64_t bytes, int64_t now_ns, int64_t *retry_s,
                                     const char **flag);
/* Fails a refused request with RESOURCE_EXHAUSTED. The message contains the flag and the client. */
enum rt_status srv_quota_fail(const char *flag, int64_t retry_s,
                              const struct srv_quota_client *client, struct rt_error *err);
/* Fails a request that has the header or metadata key `name` of the quota more than once. */
enum rt_status srv_quota_fail_repeated(const char *name, struct rt_error *err);
/* Returns the client's name for messages and logs; p is NULL if it is empty. */
struct rt_span srv_quota_shown(const struct srv_quota_client *client);
/* Takes bytes from the client's bucket without refusing them, because they have arrived already. */
void srv_quota_charge(struct srv_quota *q, const struct srv_quota_client *client, uint64_t bytes,
                      int64_t now_ns);

#endif
