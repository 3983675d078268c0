#include "server/grpc/core_log.h"

#include <grpc/support/log.h>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"

bool srv_core_log_admits(struct srv_core_log *log, int64_t now_ns, int64_t *left_out)
{
    const int64_t second = now_ns / 1000000000;
    int64_t counted = atomic_load(&log->second);

    *left_out = 0;
    if (counted != second && atomic_compare_exchange_strong(&log->second, &counted, second)) {
        atomic_store(&log->n_lines, 0);
        *left_out = atomic_exchange(&log->n_left_out, 0);
    }
    if (atomic_fetch_add(&log->n_lines, 1) < SRV_CORE_LOG_LINES)
        return true;
    atomic_fetch_add(&log->n_left_out, 1);
    return false;
}

static void log_of_core(gpr_log_func_args *args)
{
    static struct srv_core_log log;
    int64_t left_out;

    if (args->severity != GPR_LOG_SEVERITY_ERROR) {
        RT_LOG(RT_LOG_DEBUG, "gRPC: %s", args->message);
        return;
    }
    if (!srv_core_log_admits(&log, rt_now_ns(), &left_out))
        return;
    if (left_out)
        RT_LOG(RT_LOG_WARNING, "gRPC: %lld more messages were not logged", (long long)left_out);
    RT_LOG(RT_LOG_WARNING, "gRPC: %s", args->message);
}

void srv_core_log_start(void)
{
    gpr_set_log_function(log_of_core);
}
