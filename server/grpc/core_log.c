#include "server/grpc/core_log.h"

#include <grpc/support/log.h>

#include "runtime/base/log.h"
#include "server/base/log_limit.h"

static void log_of_core(gpr_log_func_args *args)
{
    static struct srv_log_limit limit;

    if (args->severity != GPR_LOG_SEVERITY_ERROR)
        RT_LOG(RT_LOG_DEBUG, "gRPC: %s", args->message);
    else if (srv_log_admits(&limit, "gRPC"))
        RT_LOG(RT_LOG_WARNING, "gRPC: %s", args->message);
}

void srv_core_log_start(void)
{
    gpr_set_log_function(log_of_core);
}
