#include "server/protocol/tfs/session_proto.h"

#include <string.h>

#include "runtime/base/arena.h"

enum { MANY = 10000, LIMIT = SRV_MESSAGE_MOST };

/* ---- reading ---- */

static enum rt_status name_of(const struct srv_field *f, const char **out, struct rt_arena *arena,
                              struct rt_error *err)
{
    struct rt_span s;
    enum rt_status st = srv_field_span(f, &s, arena, err);

    if (st)
        return st;
    if (s.n && memchr(s.p, '\0', s.n))
        return rt_fail(err, RT_INVALID_ARGUMENT, "the name of a tensor holds a NUL");
    *out = rt_arena_strndup(arena, (const char *)s.p, s.n);
    return *out ? RT_OK : rt_fail_memory(err, "the name of a tensor", s.n);
}

static enum rt_status read_feed(struct srv_cursor c, struct srv_session_feed *out,
                                struct rt_arena *arena, struct rt_error *err)
{
    struct srv_field f;
    int got;
    enum rt_status st = RT_OK;

    out->name = "";
    while (!st && (got = srv_field_next(&c, &f)) > 0) {
        if (srv_field_is(&f, 1, SRV_BYTES))
            st = name_of(&f, &out->name, arena, err);
        else if (srv_field_is(&f, 2, SRV_BYTES))
            out->tensor = f.body;
    }
    return !st && got < 0 ? srv_wire_malformed(err, "feed") : st;
}

static enum rt_status read_options(struct srv_cursor c, struct srv_session_request *out,
                                   struct rt_error *err)
{
    struct srv_field f;
    int got;

    while ((got = srv_field_next(&c, &f)) > 0) {
        if (srv_field_is(&f, 1, SRV_VARINT))
            out->wants_times = f.value != 0;
        else if (srv_field_is(&f, 2, SRV_VARINT))
            out->timeout_ms = (int64_t)f.value;
        else if (srv_field_is(&f, 5, SRV_VARINT))
            out->wants_graph = f.value != 0;
    }
    return got < 0 ? srv_wire_malformed(err, "options") : RT_OK;
}

static enum rt_status allocate_tensors(struct srv_cursor c, struct srv_session_request *out,
                                       struct rt_arena *arena, struct rt_error *err)
{
    int n[5] = {0}, got;
    struct srv_field f;

    while ((got = srv_field_next(&c, &f)) > 0)
        if (f.type == SRV_BYTES && f.number < 5)
            n[f.number]++;
    if (got < 0)
        return srv_wire_malformed(err, "SessionRunRequest");
    if (n[2] > MANY || n[3] > MANY || n[4] > MANY)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "the request has %d feeds, %d fetches and %d targets, at most %d of each",
                       n[2], n[3], n[4], MANY);
    out->feeds = rt_arena_array(arena, (size_t)n[2] + 1, sizeof *out->feeds);
    out->fetches = rt_arena_array(arena, (size_t)n[3] + 1, sizeof *out->fetches);
    out->targets = rt_arena_array(arena, (size_t)n[4] + 1, sizeof *out->targets);
    return out->feeds && out->fetches && out->targets
               ? RT_OK
               : rt_fail_memory(err, "the parts of a request", 0);
}

enum rt_status srv_session_read(struct srv_cursor message, struct srv_session_request *out,
                                struct rt_arena *arena, struct rt_error *err)
{
    struct srv_field f;
    enum rt_status st;

    *out = (struct srv_session_request){.has_spec = false};
    st = allocate_tensors(message, out, arena, err);
    while (!st && srv_field_next(&message, &f) > 0) {
        if (srv_field_is(&f, 1, SRV_BYTES)) {
            out->has_spec = true;
            st = srv_model_spec_read(f.body, &out->spec, arena, err);
        } else if (srv_field_is(&f, 2, SRV_BYTES)) {
            st = read_feed(f.body, &out->feeds[out->n_feeds++], arena, err);
        } else if (srv_field_is(&f, 3, SRV_BYTES)) {
            st = name_of(&f, &out->fetches[out->n_fetches++], arena, err);
        } else if (srv_field_is(&f, 4, SRV_BYTES)) {
            st = name_of(&f, &out->targets[out->n_targets++], arena, err);
        } else if (srv_field_is(&f, 5, SRV_BYTES)) {
            st = read_options(f.body, out, err);
        } else if (srv_field_is(&f, 6, SRV_VARINT)) {
            out->names_are_aliases = f.value != 0;
        }
    }
    return st;
}

/* ---- writing: tensors ---- */

static size_t named_size(const char *name, const struct srv_tensor_layout *l)
{
    return srv_bytes_size(1, strlen(name)) + srv_bytes_size(2, l->tensor);
}

static void put_named(struct rt_bytes *out, uint32_t number, const char *name,
                      const struct rt_tensor *t, struct srv_cancellation *cancellation)
{
    if (!srv_tensor_has_wire((enum rt_dtype)t->dtype)) {
        out->failed = true;
        return;
    }
    const struct srv_tensor_layout l = srv_tensor_lay_out(t, false, cancellation);
    srv_put_head(out, number, named_size(name, &l));
    srv_put_bytes(out, 1, name, strlen(name));
    srv_put_head(out, 2, l.tensor);
    srv_tensor_write(out, t, &l, cancellation);
}

/* ---- writing: the trace of a run ---- */

/* Writes a NodeOutput with a TensorDescription of the output's type and shape. */
static void put_output(struct rt_bytes *out, struct rt_bytes scratch[3], int slot,
                       const struct rt_trace_output *o)
{
    struct rt_bytes *shape = &scratch[0], *description = &scratch[1], *output = &scratch[2];

    for (int d = 0; d < o->shape.rank; d++) {
        int64_t dim = o->shape.dim[d];
        srv_put_head(shape, 2, dim ? 1 + srv_varint_size((uint64_t)dim) : 0);
        srv_put_int(shape, 1, (uint64_t)dim);
    }
    srv_put_int(description, 1, o->dtype);
    srv_put_message(description, 2, shape);
    srv_put_int(output, 1, (uint64_t)slot);
    srv_put_message(output, 3, description);
    srv_put_message(out, 7, output);
}

static void device_name(struct rt_bytes *out, uint32_t number, int device)
{
    static const char front[] = "/job:localhost/replica:0/task:0/device:";
    if (device)
        srv_put_head(out, number, sizeof front - 1 + strlen("GPU:0"));
    else
        srv_put_head(out, number, sizeof front - 1 + strlen("CPU:0"));
    rt_bytes_adds(out, front);
    rt_bytes_adds(out, device ? "GPU:0" : "CPU:0");
}

static void put_node_stats(struct rt_bytes *out, struct rt_bytes scratch[4],
                           const struct rt_trace_node *n)
{
    struct rt_bytes *stats = &scratch[3];
    int64_t ns = n->end_ns - n->start_ns;

    srv_put_text(stats, 1, n->name);
    srv_put_int(stats, 2, (uint64_t)(n->start_ns / 1000));
    srv_put_int(stats, 4, (uint64_t)(ns / 1000));
    srv_put_int(stats, 5, (uint64_t)(ns / 1000));
    for (int o = 0; o < n->n_outputs; o++)
        put_output(stats, scratch, o, &n->outputs[o]);
    srv_put_head(stats, 8, strlen(n->name) + strlen(n->op) + strlen(" = ()"));
    rt_bytes_adds(stats, n->name);
    rt_bytes_adds(stats, " = ");
    rt_bytes_adds(stats, n->op);
    rt_bytes_adds(stats, "()");
    srv_put_int(stats, 9, (uint64_t)(n->start_ns / 1000));
    srv_put_int(stats, 13, (uint64_t)n->start_ns);
    srv_put_int(stats, 15, (uint64_t)ns);
    srv_put_int(stats, 16, (uint64_t)ns);
    srv_put_int(stats, 17, (uint64_t)n->start_ns);
    srv_put_message(out, 2, stats);
}

/* Writes the StepStats, which list the nodes that ran on each device. */
static void put_step_stats(struct rt_bytes *out, const struct rt_trace *t)
{
    struct rt_bytes scratch[4], device, all;

    rt_bytes_init(&device, LIMIT);
    rt_bytes_init(&all, LIMIT);
    for (int i = 0; i < 4; i++)
        rt_bytes_init(&scratch[i], LIMIT);
    for (int d = 0; d < 2; d++) { /* 0 is the CPU; 1 means all other devices */
        bool any = false;
        for (const struct rt_trace_node *n = t->first; n; n = n->next) {
            if ((n->device != 0) != d)
                continue;
            if (!any)
                device_name(&device, 1, d);
            any = true;
            put_node_stats(&device, scratch, n);
        }
        if (any)
            srv_put_message(&all, 1, &device);
    }
    srv_put_message(out, 1, &all);
    for (int i = 0; i < 4; i++)
        rt_bytes_clear(&scratch[i]);
    rt_bytes_clear(&device);
    rt_bytes_clear(&all);
}

/* Writes a GraphDef. Its NodeDefs have no attributes, because plans do not store attributes. */
static void put_graph(struct rt_bytes *out, const struct rt_trace *t)
{
    struct rt_bytes node, graph;

    rt_bytes_init(&node, LIMIT);
    rt_bytes_init(&graph, LIMIT);
    for (int i = 0; i < t->n_graph_nodes; i++) {
        const struct rt_trace_graph_node *n = &t->graph[i];
        srv_put_text(&node, 1, n->name);
        srv_put_text(&node, 2, n->op);
        for (int k = 0; k < n->n_inputs; k++)
            srv_put_bytes(&node, 3, n->inputs[k], strlen(n->inputs[k]));
        device_name(&node, 4, n->device);
        srv_put_message(&graph, 1, &node);
    }
    srv_put_message(out, 3, &graph);
    rt_bytes_clear(&node);
    rt_bytes_clear(&graph);
}

/* ---- writing: messages ---- */

enum rt_status srv_session_write(const struct srv_session_response *r, unsigned char **out,
                                 size_t *n, struct rt_error *err)
{
    struct srv_cancellation *cancellation = srv_growth_cancellation(r->growth);
    struct rt_bytes message, metadata;
    size_t total = srv_model_echo_size(&r->echo, 3);

    for (int i = 0; i < r->n; i++)
        if (!srv_tensor_has_wire((enum rt_dtype)r->tensors[i]->dtype))
            return rt_fail(err, RT_UNIMPLEMENTED, "tensor %s is of type %s, which is no value",
                           r->names[i], rt_dtype_name((enum rt_dtype)r->tensors[i]->dtype));
    rt_bytes_init(&metadata, LIMIT);
    if (r->trace && r->trace->wants_times)
        put_step_stats(&metadata, r->trace);
    if (r->trace && r->trace->wants_graph)
        put_graph(&metadata, r->trace);
    if (r->trace)
        total += srv_bytes_size(2, metadata.n);
    /* Limits the size of the response, because a request may fetch the same tensor any number of
     * times. */
    for (int i = 0; i < r->n && total <= LIMIT; i++) {
        const struct srv_tensor_layout l = srv_tensor_lay_out(r->tensors[i], false, cancellation);
        total += srv_bytes_size(1, named_size(r->names[i], &l));
    }
    enum rt_status st = srv_growth_open(r->growth, &message, total, err);
    for (int i = 0; i < r->n && !st && !(cancellation && cancellation->over); i++)
        put_named(&message, 1, r->names[i], r->tensors[i], cancellation);
    if (!st && r->trace)
        srv_put_message(&message, 2, &metadata);
    rt_bytes_clear(&metadata);
    if (st)
        return st;
    srv_model_echo_put(&message, &r->echo, 3);
    return srv_growth_close(r->growth, &message, out, n, err);
}

void srv_session_write_request(const struct srv_session_request *r,
                               const struct srv_model_echo *echo,
                               const struct rt_tensor *const *tensors, struct rt_bytes *out)
{
    srv_model_echo_put(out, echo, 1);
    for (int i = 0; i < r->n_feeds; i++)
        put_named(out, 2, r->feeds[i].name, tensors[i], NULL);
    for (int i = 0; i < r->n_fetches; i++)
        srv_put_bytes(out, 3, r->fetches[i], strlen(r->fetches[i]));
    for (int i = 0; i < r->n_targets; i++)
        srv_put_bytes(out, 4, r->targets[i], strlen(r->targets[i]));
    srv_put_int(out, 6, r->names_are_aliases);
}
