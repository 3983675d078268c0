#include "server/inference/admission.h"

#include "server/metrics/metrics.h"

enum rt_status srv_admit(struct srv_server *server, struct rt_span key, uint64_t bytes,
                         int64_t now_ns, struct srv_quota_client *client, int64_t *retry_s,
                         struct rt_error *err)
{
    const char *flag = NULL;

    *client = srv_quota_client_of(server->quota, key);
    switch (srv_quota_take(server->quota, client, bytes, now_ns, retry_s, &flag)) {
    case SRV_QUOTA_TAKEN:
        return RT_OK;
    case SRV_QUOTA_TAKEN_SHARED:
        srv_metrics_event(server->metrics, "quota_shared");
        return RT_OK;
    case SRV_QUOTA_REFUSED:
        break;
    }
    srv_metrics_event(server->metrics, "quota_refused");
    return srv_quota_fail(flag, *retry_s, client, err);
}
