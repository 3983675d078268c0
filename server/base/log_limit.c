#include "server/base/log_limit.h"

#include "runtime/base/clock.h"
#include "runtime/base/log.h"

bool srv_log_limit_admits(struct srv_log_limit *limit, int64_t now_ns, int64_t *left_out)
{
    const int64_t second = now_ns / 1000000000;
    int64_t counted = atomic_load(&limit->second);

    *left_out = 0;
    if (counted != second && atomic_compare_exchange_strong(&limit->second, &counted, second)) {
        atomic_store(&limit->n_lines, 0);
        *left_out = atomic_exchange(&limit->n_left_out, 0);
    }
    if (atomic_fetch_add(&limit->n_lines, 1) < SRV_LOG_LINES)
        return true;
    atomic_fetch_add(&limit->n_left_out, 1);
    return false;
}

bool srv_log_admits(struct srv_log_limit *limit, const char *subject)
{
    int64_t left_out;

    if (!srv_log_limit_admits(limit, rt_now_ns(), &left_out))
        return false;
    if (left_out)
        RT_LOG(RT_LOG_WARNING, "%s: %lld more messages were not logged", subject,
               (long long)left_out);
    return true;
}
