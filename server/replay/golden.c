#include "server/replay/golden.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/files/file.h"
#include "server/replay/golden_compare.h"
#include "server/json/json_number.h"
#include "server/metrics/metrics.h"
#include "server/replay/warmup.h"

static bool is_blank(unsigned char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

bool srv_golden_read_tolerance(struct rt_span text, double *out)
{
    const unsigned char *p = text.p, *end = text.p + text.n;

    while (p < end && is_blank(*p))
        p++;
    while (p < end && is_blank(end[-1]))
        end--;
    if (p == end || *p < '0' || *p > '9' || srv_double_read(p, end, out) != end)
        return false;
    return *out - *out == 0.0; /* the difference is NaN if *out is infinite or NaN */
}

static enum rt_status read_tolerance(const char *dir, double *out, struct rt_error *err)
{
    char *path, *text;
    size_t n;
    enum rt_status st = srv_replay_find(dir, SRV_GOLDEN_TOLERANCE_FILE, &path, err);

    if (st || !path)
        return st;
    st = rt_file_read(path, 256, &text, &n, err);
    if (!st) {
        if (!srv_golden_read_tolerance(rt_span_of(text, n), out))
            st = rt_fail(err, RT_INVALID_ARGUMENT, "%s does not hold one number of at least 0",
                         path);
        free(text);
    }
    free(path);
    return st;
}

static enum rt_status check(void *arg, const struct srv_recorded *record, struct rt_span response,
                            struct srv_growth *growth, struct rt_error *err)
{
    const double *tolerance = arg;

    if (!record->response.p)
        return RT_OK;
    return srv_golden_compare(record->api, response, record->response, *tolerance, growth, err);
}

/* Fails if the golden file is a dangling symlink. Unreadable goldens must not be ignored. */
static enum rt_status check_no_link(const char *dir, struct rt_error *err)
{
    char path[PATH_MAX];
    struct stat s;

    snprintf(path, sizeof path, "%s/%s", dir, SRV_GOLDEN_FILE);
    return lstat(path, &s) ? RT_OK
                           : rt_fail(err, RT_FAILED_PRECONDITION, "%s is a link to nothing", path);
}

enum rt_status srv_golden_run(struct srv_server *s, struct srv_version *v, const char *dir,
                              const _Atomic bool *cancelled, struct rt_error *err)
{
    const struct srv_options *o = &s->options;
    double tolerance = o->golden_tolerance;
    int64_t start = rt_now_ns(), n = 0;
    char *path;
    enum rt_status st = srv_replay_find(dir, SRV_GOLDEN_FILE, &path, err);

    if (!st && !path)
        st = check_no_link(dir, err);
    if (st || !path)
        return st;
    const struct srv_replay p = {
        .path = path,
        .what = "golden",
        .version = v,
        .options = o,
        .cancelled = cancelled,
        .budget = &s->replays,
        .records = &s->replayed_records,
        .n_threads = o->num_model_warmup_threads,
        .n_iterations = 1,
        .check = check,
        .arg = &tolerance,
    };
    st = read_tolerance(dir, &tolerance, err);
    if (!st)
        st = srv_replay_run(&p, &n, err);
    if (!st)
        RT_LOG(RT_LOG_INFO, "model %s version %lld: %lld goldens within %g in %.1f ms", v->model,
               (long long)v->version, (long long)n, tolerance, (double)(rt_now_ns() - start) / 1e6);
    else if (st != RT_CANCELLED)
        srv_metrics_event(s->metrics, "golden_refused");
    free(path);
    return st;
}
