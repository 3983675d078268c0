#include "server/protocol/tfs/model_spec.h"

enum rt_status srv_model_spec_read(struct srv_cursor message, struct srv_model_spec *out,
                                   struct rt_arena *arena, struct rt_error *err)
{
    struct srv_field f;
    int got;
    enum rt_status st = RT_OK;

    while (!st && (got = srv_field_next(&message, &f)) > 0) {
        if (srv_field_is(&f, 1, SRV_BYTES)) {
            st = srv_cursor_span(f.body, &out->name, arena, err);
        } else if (srv_field_is(&f, 3, SRV_BYTES)) {
            st = srv_cursor_span(f.body, &out->signature, arena, err);
        } else if (srv_field_is(&f, 4, SRV_BYTES)) {
            /* fields 2 and 4 form a oneof, so the last one in the message is used */
            st = srv_cursor_span(f.body, &out->label, arena, err);
            out->has_version = false;
        } else if (srv_field_is(&f, 2, SRV_BYTES)) {
            struct srv_cursor value = f.body;
            if (!out->has_version)
                out->version = 0;
            out->has_version = true;
            out->label = (struct rt_span){0};
            while ((got = srv_field_next(&value, &f)) > 0)
                if (srv_field_is(&f, 1, SRV_VARINT))
                    out->version = (int64_t)f.value;
            if (got < 0)
                return srv_wire_malformed(err, "model_spec.version");
        }
    }
    return !st && got < 0 ? srv_wire_malformed(err, "model_spec") : st;
}

static size_t version_size(const struct srv_model_echo *e)
{
    return e->version ? 1 + srv_varint_size((uint64_t)e->version) : 0;
}

static size_t spec_size(const struct srv_model_echo *e)
{
    return srv_bytes_size(1, strlen(e->model)) + srv_bytes_size(2, version_size(e)) +
           (*e->signature ? srv_bytes_size(3, strlen(e->signature)) : 0);
}

size_t srv_model_echo_size(const struct srv_model_echo *echo, uint32_t number)
{
    return srv_bytes_size(number, spec_size(echo));
}

unsigned char *srv_model_echo_write(unsigned char *p, const struct srv_model_echo *echo,
                                    uint32_t number)
{
    p = srv_write_head(p, number, spec_size(echo));
    p = srv_write_bytes(p, 1, echo->model, strlen(echo->model));
    p = srv_write_head(p, 2, version_size(echo));
    if (echo->version)
        p = srv_write_varint(srv_write_tag(p, 1, SRV_VARINT), (uint64_t)echo->version);
    if (*echo->signature)
        p = srv_write_bytes(p, 3, echo->signature, strlen(echo->signature));
    return p;
}

void srv_model_echo_put(struct rt_bytes *out, const struct srv_model_echo *echo, uint32_t number)
{
    size_t n = srv_model_echo_size(echo, number);
    if (!rt_bytes_reserve(out, n))
        return;
    srv_model_echo_write((unsigned char *)out->p + out->n, echo, number);
    out->n += n;
    out->p[out->n] = '\0';
}
