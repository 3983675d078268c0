#include "proto/prediction_log.h"

#include "proto/wire.h"

static bool read_log(struct rt_span log, struct pb_prediction_log *out)
{
    struct pb_field f;
    int more;

    while ((more = pb_field_next(&log, &f)) > 0) {
        if (f.type != PB_BYTES)
            continue;
        if (f.number == PB_LOG_REQUEST)
            out->request = f.bytes;
        else if (f.number == PB_LOG_RESPONSE)
            out->response = f.bytes;
    }
    return more == 0;
}

bool pb_prediction_log_read(struct rt_span record, struct pb_prediction_log *out)
{
    struct pb_field f;
    int more;

    *out = (struct pb_prediction_log){0};
    while ((more = pb_field_next(&record, &f)) > 0) {
        if (f.type != PB_BYTES || f.number < PB_LOG_CLASSIFY || f.number > PB_LOG_PREDICT_STREAMED)
            continue;
        *out = (struct pb_prediction_log){.type = (enum pb_log_type)f.number};
        if (!read_log(f.bytes, out))
            return false;
    }
    return more == 0;
}

static size_t varint_size(uint64_t v)
{
    size_t n = 1;
    for (; v > 127; v >>= 7)
        n++;
    return n;
}

static size_t field_size(uint32_t number, struct rt_span s)
{
    return s.p ? varint_size((uint64_t)number << 3) + varint_size(s.n) + s.n : 0;
}

static void put_varint(struct rt_bytes *out, uint64_t v)
{
    for (; v > 127; v >>= 7)
        rt_bytes_addc(out, (char)(v | 128));
    rt_bytes_addc(out, (char)v);
}

static void put_head(struct rt_bytes *out, uint32_t number, size_t n)
{
    put_varint(out, (uint64_t)number << 3 | PB_BYTES);
    put_varint(out, n);
}

static void put_field(struct rt_bytes *out, uint32_t number, struct rt_span s)
{
    if (!s.p)
        return;
    put_head(out, number, s.n);
    rt_bytes_add(out, s.p, s.n);
}

void pb_prediction_log_write(const struct pb_prediction_log *log, struct rt_span metadata,
                             struct rt_bytes *out)
{
    put_field(out, PB_LOG_METADATA, metadata);
    put_head(out, log->type,
             field_size(PB_LOG_REQUEST, log->request) + field_size(PB_LOG_RESPONSE, log->response));
    put_field(out, PB_LOG_REQUEST, log->request);
    put_field(out, PB_LOG_RESPONSE, log->response);
}
