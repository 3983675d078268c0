/*
 * Decides by the quotas of clients (server/base/quota.h) whether an inference may begin. The
 * transports only find the key of the client and the size of the request.
 *
 * Threads: any thread may call the function.
 */
#ifndef SRV_ADMISSION_H
#define SRV_ADMISSION_H

#include "server/base/quota.h"
#include "server/server.h"

/*
 * Takes a request of `bytes` bytes from the quota of the client with the key `key`, which is empty
 * if the client has sent none. Sets *client for later charges. Counts a refusal, and a request
 * whose client has no bucket of its own, as events. A refusal fails with RESOURCE_EXHAUSTED and
 * sets *retry_s to the number of seconds after which the client may retry. The server must have
 * quotas.
 */
enum rt_status srv_admit(struct srv_server *server, struct rt_span key, uint64_t bytes,
                         int64_t now_ns, struct srv_quota_client *client, int64_t *retry_s,
                         struct rt_error *err);

#endif
