/*
 * Assigns nodes to the session's accelerator. A node is assigned if its device string names the
 * accelerator's type. If the session assigns all nodes that the accelerator can run, a node is also
 * assigned if its device string does not name the CPU. In both cases, the op must be pure, and the
 * accelerator must have a kernel for the node's types. All other nodes run on the CPU, as with
 * TensorFlow's soft placement. The index in a device string is ignored, because a session has at
 * most one accelerator.
 */
#include "runtime/passes/passes.h"

#include <string.h>
#include <strings.h>

#include "runtime/base/log.h"
#include "runtime/core/device.h"

/* Returns the type in a device string such as "/job:x/device:GPU:1", "/gpu:1" or "GPU:1". The type
 * follows the last '/' or "device:" and ends before ':'. */
static struct rt_span device_type(const char *text)
{
    const char *at = strrchr(text, '/');
    at = at ? at + 1 : text;
    if (strncasecmp(at, "device:", 7) == 0)
        at += 7;
    return rt_span_of(at, strcspn(at, ":"));
}

static bool is_type(struct rt_span type, const char *name)
{
    return type.n == strlen(name) && strncasecmp((const char *)type.p, name, type.n) == 0;
}

static bool has_kernel(const struct rt_session *s, const struct rt_node *def)
{
    int n;
    const struct rt_kernel *const *k = rt_registry_kernels(s->options.registry, def->op->name, &n);
    for (int i = 0; i < n; i++)
        if (strcmp(k[i]->device, s->options.accelerators.device[0]->type) == 0 &&
            rt_kernel_takes(k[i], def))
            return true;
    return false;
}

static bool is_assigned(const struct rt_session *s, const struct pl_node *n)
{
    if (!s->options.accelerators.n || n->effect != RT_PURE)
        return false;
    const struct rt_span type = device_type(n->def->device);
    const bool asks = is_type(type, s->options.accelerators.device[0]->type);
    const bool is_free = s->options.accelerators.run_all && !is_type(type, RT_CPU);
    return (asks || is_free) && has_kernel(s, n->def);
}

enum rt_status pl_assign(struct pl_graph *g, struct rt_error *err)
{
    const struct rt_session *s = g->session;
    (void)err;
    if (!s->options.accelerators.n && !s->options.log_device_placement)
        return RT_OK;
    for (int i = 0; i < g->n; i++) {
        struct pl_node *n = &g->node[i];
        if (n->kind != PL_OP || !n->def || !n->def->op)
            continue;
        n->on_accelerator = is_assigned(s, n);
        if (s->options.log_device_placement)
            RT_LOG(RT_LOG_INFO, "%s: (%s): /device:%s:%d", n->name, n->def->op->name,
                   n->on_accelerator ? s->options.accelerators.device[0]->type : RT_CPU,
                   n->on_accelerator ? s->options.accelerators.device[0]->index : 0);
    }
    return RT_OK;
}
