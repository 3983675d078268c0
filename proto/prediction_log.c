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
