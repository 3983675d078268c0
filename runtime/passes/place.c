/*
 * Assigns each node to a device, and adds copies where a tensor crosses devices. If a device string
 * names a device that the session does not have, or one without a kernel for the node, the node
 * runs on the CPU (soft placement). Inputs that a kernel needs in host memory are not copied.
 */
#include "runtime/passes/passes.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/log.h"

/* Parses the device type and index in "/job:x/device:GPU:1", "/gpu:1" or "GPU:1". They follow the
 * last '/' or "device:". */
static int device_of(const struct rt_session *s, const char *text)
{
    const char *at = strrchr(text, '/');
    at = at ? at + 1 : text;
    if (strncasecmp(at, "device:", 7) == 0)
        at += 7;
    const char *colon = strchr(at, ':');
    size_t n = colon ? (size_t)(colon - at) : strlen(at);
    long index = colon ? strtol(colon + 1, NULL, 10) : 0;
    for (int d = 0; d < s->n_devices; d++)
        if (strlen(s->devices[d]->type) == n && strncasecmp(s->devices[d]->type, at, n) == 0 &&
            s->devices[d]->index == index)
            return d;
    return 0;
}

static const struct rt_kernel *kernel_on(const struct rt_session *s, const struct rt_node *def,
                                         const char *device)
{
    int n;
    const struct rt_kernel *const *k = rt_registry_kernels(s->options.registry, def->op->name, &n);
    for (int i = 0; i < n; i++)
        if (strcmp(k[i]->device, device) == 0)
            return k[i];
    return NULL;
}

static int add_copy(struct pl_graph *g, struct pl_edge from, int device, enum rt_dtype dtype,
                    struct rt_error *err)
{
    int c = pl_add(g, err);
    if (c < 0)
        return -1;
    struct pl_node *n = &g->node[c];
    n->kind = PL_COPY;
    n->name = g->node[from.node].name;
    n->device = (uint8_t)device;
    n->copy_dtype = (uint8_t)dtype;
    n->n_in = n->n_out = 1;
    n->in = rt_arena_array(g->arena, 1, sizeof *n->in);
    if (!n->in) {
        rt_fail_memory(err, "a plan", sizeof *n->in);
        return -1;
    }
    n->in[0] = from;
    return c;
}

static bool output_on_host(const struct pl_graph *g, struct pl_edge e)
{
    const struct pl_node *n = &g->node[e.node];
    if (!n->device || g->session->devices[n->device]->is_host)
        return true;
    if (n->kind == PL_COPY)
        return false;
    const struct rt_kernel *k = kernel_on(g->session, n->def, g->session->devices[n->device]->type);
    return k && e.out < 64 && (k->host_out >> e.out & 1);
}

enum rt_status pl_place(struct pl_graph *g, struct rt_error *err)
{
    const struct rt_session *s = g->session;
    if (s->n_devices < 2 && !s->options.log_device_placement)
        return RT_OK;
    for (int i = 0; i < g->n; i++) {
        struct pl_node *n = &g->node[i];
        if (n->kind != PL_OP || !n->def || !n->def->op)
            continue;
        int d = n->def->device[0] ? device_of(s, n->def->device) : 0;
        if (d && (n->effect != RT_PURE || !kernel_on(s, n->def, s->devices[d]->type)))
            d = 0;
        n->device = (uint8_t)d;
        if (s->options.log_device_placement)
            RT_LOG(RT_LOG_INFO, "%s: (%s): /device:%s:%d", n->name, n->def->op->name,
                   s->devices[d]->type, s->devices[d]->index);
    }
    if (s->n_devices < 2)
        return RT_OK;
    for (int i = 0, n_before = g->n; i < n_before; i++) {
        if (g->node[i].kind == PL_GONE)
            continue;
        int d = g->node[i].device;
        bool far = d && !s->devices[d]->is_host;
        const struct rt_kernel *kernel =
            far ? kernel_on(s, g->node[i].def, s->devices[d]->type) : NULL;
        for (int k = 0; k < g->node[i].n_in; k++) {
            struct pl_edge e = g->node[i].in[k];
            int from = output_on_host(g, e) ? 0 : g->node[e.node].device;
            int want = far && !(k < 64 && (kernel->host_in >> k & 1)) ? d : 0;
            if (from == want)
                continue;
            int c = add_copy(g, e, want, (enum rt_dtype)g->node[i].def->in_dtype[k], err);
            if (c < 0)
                return RT_RESOURCE_EXHAUSTED;
            if (want == 0)
                g->node[c].copy_dtype = (uint8_t)g->node[i].def->in_dtype[k];
            g->node[i].in[k] = (struct pl_edge){c, 0};
        }
    }
    for (int k = 0; k < g->n_fetches; k++)
        if (!output_on_host(g, g->fetch[k])) {
            int c = add_copy(g, g->fetch[k], 0, (enum rt_dtype)g->fetch_dtype[k], err);
            if (c < 0)
                return RT_RESOURCE_EXHAUSTED;
            g->fetch[k] = (struct pl_edge){c, 0};
        }
    return RT_OK;
}
