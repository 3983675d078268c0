#include "server/tracing/trace_record.h"

#include "runtime/base/bytes.h"

const char *srv_trace_phase_name(enum srv_trace_phase phase)
{
    static const char *const names[SRV_N_PHASES] = {
        [SRV_PHASE_RECEIVE] = "receive", [SRV_PHASE_DECODE] = "decode", [SRV_PHASE_QUEUE] = "queue",
        [SRV_PHASE_RUN] = "run",         [SRV_PHASE_ENCODE] = "encode",
    };

    return names[phase];
}

void srv_trace_text(char *to, size_t size, struct rt_span text)
{
    unsigned char head[8];
    size_t n = 0;

    for (size_t at = 0; at < text.n && text.p[at];) {
        const size_t left = text.n - at < 4 ? text.n - at : 4;
        memcpy(head, text.p + at, left);
        head[left] = '\0'; /* rt_utf8_length stops at the terminating NUL */
        const int length = rt_utf8_length(head);
        const size_t taken = length > 0 ? (size_t)length : 1;
        if (n + taken >= size)
            break;
        if (length > 0)
            memcpy(to + n, text.p + at, taken);
        else
            to[n] = '?';
        n += taken;
        at += taken;
    }
    to[n] = '\0';
}

int srv_trace_record_spans(const struct srv_trace_record *r)
{
    int n = 1;

    for (int k = 0; k < SRV_N_PHASES && !r->is_batch; k++)
        n += r->phase[k].end_ns != 0;
    return n;
}
