/* Implements the choice of GPUs for models (model_gpus.h). */
#include "server/versions/model_gpus.h"

#include <string.h>

#include "runtime/base/log.h"
#include "runtime/base/thread.h"
#include "runtime/core/device/device_list.h"
#include "runtime/core/device/device_memory.h"
#include "server/triton/triton.h"

/* ---- the configuration ---- */

/* Returns the index of the GPU that `item` names, -1 if there is none, or -2 if several GPUs have a
 * UUID that begins with `item`. */
static int find(const struct srv_server *s, const char *item)
{
    const int number = rt_device_item_number(item);
    int found = -1;
    if (number >= 0)
        return number < s->gpus.n ? number : -1;
    for (int k = 0; k < s->gpus.n; k++) {
        const char *uuid = s->gpus.device[k]->uuid;
        if (uuid && rt_device_item_matches(item, uuid))
            found = found == -1 ? k : -2;
    }
    return found;
}

static enum rt_status no_gpu(const struct srv_server *s, const struct srv_model_config *m,
                             const char *item, int found, struct rt_error *err)
{
    const int length = (int)rt_device_item_length(item);
    if (found == -2)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "model %s: gpus is \"%s\": several GPUs have a UUID that begins with %.*s",
                       m->name, m->gpu.gpus, length, item);
    return rt_fail(err, RT_INVALID_ARGUMENT,
                   "model %s: gpus is \"%s\": the server uses no GPU %.*s; it uses %d GPU%s, "
                   "numbered from 0",
                   m->name, m->gpu.gpus, length, item, s->gpus.n, s->gpus.n == 1 ? "" : "s");
}

/* Sets bit k of *allowed if the model may use GPU k. */
static enum rt_status read_list(const struct srv_server *s, const struct srv_model_config *m,
                                uint32_t *allowed, struct rt_error *err)
{
    const char *gpus = m && m->gpu.gpus ? m->gpu.gpus : "all";
    *allowed = strcmp(gpus, "all") == 0 ? (UINT32_C(1) << s->gpus.n) - 1 : 0;
    if (strcmp(gpus, "all") == 0 || strcmp(gpus, "none") == 0)
        return RT_OK;
    for (const char *at = gpus; at && s->gpus.n; at = rt_device_item_next(at)) {
        const int found = find(s, at);
        if (found < 0)
            return no_gpu(s, m, at, found, err);
        if (*allowed >> found & 1)
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "model %s: gpus is \"%s\", which names GPU %d twice", m->name, gpus,
                           found);
        *allowed |= UINT32_C(1) << found;
    }
    return RT_OK;
}

/* Returns how many bytes of the GPU's memory the server may use. Does not ask the driver, which may
 * wait for the GPU, because a reload is checked on the manager's thread. */
static int64_t usable_bytes(struct rt_device *d)
{
    const int64_t limit = rt_device_counts(d).limit;
    return d->total_bytes && d->total_bytes < limit ? d->total_bytes : limit;
}

static enum rt_status check_model(const struct srv_server *s, const struct srv_model_config *m,
                                  struct rt_error *err)
{
    uint32_t allowed;
    const enum rt_status st = read_list(s, m, &allowed, err);
    if (st)
        return st;
    if (s->gpus.n && m->gpu.instances > s->options.gpu_slots)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "model %s: gpu_instances is %d, but --gpu_slots is %lld", m->name,
                       m->gpu.instances, (long long)s->options.gpu_slots);
    for (int k = 0; m->gpu.memory_bytes && k < s->gpus.n; k++) {
        const int64_t usable = allowed >> k & 1 ? usable_bytes(s->gpus.device[k]) : INT64_MAX;
        if (m->gpu.memory_bytes > usable)
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "model %s: gpu_memory_bytes is %lld, but the server may use %lld bytes "
                           "of GPU %d",
                           m->name, (long long)m->gpu.memory_bytes, (long long)usable, k);
    }
    if (!s->gpus.n && m->gpu.gpus && strcmp(m->gpu.gpus, "none") != 0)
        RT_LOG(RT_LOG_WARNING, "model %s: gpus is \"%s\", but the server uses no GPU", m->name,
               m->gpu.gpus);
    return RT_OK;
}

enum rt_status srv_model_gpus_check(const struct srv_server *s, const struct srv_config *config,
                                    struct rt_error *err)
{
    for (int i = 0; i < config->n_models; i++)
        if (check_model(s, &config->models[i], err))
            return srv_config_at_place(config, &config->models[i], err);
    return RT_OK;
}

struct srv_gpu_use srv_model_gpus_use(const struct srv_server *s, const struct srv_model_config *m)
{
    struct rt_error ignored = {0};
    struct srv_gpu_use use = {.full_precision = strcmp(s->options.gpu_precision, "float32") == 0};
    if (read_list(s, m, &use.allowed, &ignored))
        use.allowed = 0;
    if (!m)
        return use;
    use.is_named = m->gpu.gpus != NULL;
    use.memory_bytes = m->gpu.memory_bytes;
    use.instances = m->gpu.instances;
    if (m->gpu.full_precision != SRV_UNSAID)
        use.full_precision = m->gpu.full_precision == SRV_YES;
    return use;
}

enum rt_status srv_model_gpus_add_triton(const struct srv_server *s, const char *model,
                                         const struct srv_triton *t, struct srv_gpu_use *use,
                                         struct rt_error *err)
{
    struct srv_triton_gpus gpus = {0};
    const int64_t slots = s->options.gpu_slots;
    const enum rt_status st = t ? srv_triton_gpus(t, s->gpus.n, &gpus, err) : RT_OK;
    if (st || !gpus.is_set)
        return st;
    if (!use->is_named)
        use->allowed = gpus.allowed;
    if (gpus.needs_gpu && !s->gpus.n)
        RT_LOG(RT_LOG_WARNING,
               "model %s: instance_group asks for GPUs, but the server uses no GPU (--gpus)",
               model);
    if (!use->allowed)
        return RT_OK;
    if (gpus.has_cpu)
        RT_LOG(RT_LOG_WARNING,
               "model %s: its groups of KIND_CPU have no effect, because the model uses GPUs",
               model);
    if (use->instances)
        return RT_OK;
    if (gpus.is_uneven)
        RT_LOG(
            RT_LOG_WARNING,
            "model %s: instance_group has different counts for its GPUs; the largest one is used "
            "for all",
            model);
    if (gpus.instances > slots)
        RT_LOG(RT_LOG_WARNING,
               "model %s: instance_group has %lld instances on a GPU, but --gpu_slots is %lld",
               model, (long long)gpus.instances, (long long)slots);
    use->instances = (int)(gpus.instances < slots ? gpus.instances : slots);
    return RT_OK;
}

/* ---- loads ---- */

static struct rt_mutex reservations_mu = RT_MUTEX_INIT; /* guards srv_server.gpu_reservation */

/* Returns how many of the reserved bytes the loads have not uploaded yet. Those that they have
 * uploaded are among the GPU's weights. */
static int64_t pending_bytes(const struct srv_gpu_reservation *r, int64_t weights)
{
    const int64_t uploaded = weights > r->weights_before ? weights - r->weights_before : 0;
    return uploaded < r->bytes ? r->bytes - uploaded : 0;
}

/* Reserves `bytes` of the GPU's memory for a load. Fails if so much is not left. Sets *waits if it
 * will be left when the versions that the load replaces have freed `leaving` bytes. */
static enum rt_status reserve(struct srv_server *s, int k, int64_t bytes, int64_t leaving,
                              bool *waits, struct rt_error *err)
{
    struct srv_gpu_reservation *r = &s->gpu_reservation[k];
    struct rt_device *d = s->gpus.device[k];
    const struct rt_device_counts counts = rt_device_counts(d);
    const int64_t left = rt_device_left(d);
    rt_mutex_lock(&reservations_mu);
    if (!r->bytes)
        r->weights_before = counts.used[RT_DEVICE_WEIGHTS];
    const int64_t pending = pending_bytes(r, counts.used[RT_DEVICE_WEIGHTS]);
    const bool fits = bytes <= left - pending;
    r->bytes += fits ? bytes : 0;
    rt_mutex_unlock(&reservations_mu);
    *waits = !fits && bytes - leaving <= left - pending;
    if (fits)
        return RT_OK;
    return rt_fail(err, RT_RESOURCE_EXHAUSTED,
                   "GPU:%d has no memory for %lld bytes of weights; %lld are left, of which loads "
                   "have reserved %lld",
                   k, (long long)bytes, (long long)left, (long long)pending);
}

void srv_model_gpus_add_held(const struct srv_server *s, const struct rt_model *m, int64_t *bytes)
{
    struct rt_session_stats stats;
    const struct rt_session_accelerators *all = rt_model_accelerators(m);
    if (!all->n)
        return;
    rt_session_stats(m->session, &stats);
    for (int k = 0; k < s->gpus.n; k++)
        for (int i = 0; i < all->n; i++)
            if (all->device[i] == s->gpus.device[k])
                bytes[k] += stats.accelerator_bytes[i];
}

void srv_model_gpus_choose(struct srv_server *s, const char *model, const struct srv_gpu_use *use,
                           int64_t bytes, const int64_t *leaving,
                           struct rt_session_accelerators *out)
{
    *out = (struct rt_session_accelerators){.limit = (size_t)use->memory_bytes,
                                            .constant_bytes = bytes,
                                            .max_runs = use->instances,
                                            .run_all = true};
    if (use->memory_bytes && bytes > use->memory_bytes) {
        RT_LOG(RT_LOG_WARNING,
               "model %s: the processor runs it: its %lld bytes of weights exceed its "
               "gpu_memory_bytes, %lld",
               model, (long long)bytes, (long long)use->memory_bytes);
        return;
    }
    for (int k = 0; k < s->gpus.n; k++) {
        struct rt_error err = {0};
        bool waits;
        if (!(use->allowed >> k & 1) || atomic_load(&s->gpus.device[k]->has_failed))
            continue;
        const enum rt_status st = reserve(s, k, bytes, leaving[k], &waits, &err);
        if (st)
            RT_LOG(RT_LOG_WARNING, "model %s: %s%s", model, rt_error_text(&err),
                   waits ? "; the processor runs the model until the version that it replaces has "
                           "freed its memory"
                         : "");
        if (st && !waits)
            continue;
        out->waits |= (uint32_t)waits << out->n;
        out->device[out->n++] = s->gpus.device[k];
    }
}

void srv_model_gpus_end_load(struct srv_server *s, const struct rt_session_accelerators *chosen,
                             int64_t bytes)
{
    rt_mutex_lock(&reservations_mu);
    for (int i = 0; i < chosen->n; i++) {
        struct srv_gpu_reservation *r = &s->gpu_reservation[chosen->device[i]->index];
        if (chosen->waits >> i & 1)
            continue; /* nothing was reserved */
        r->bytes -= bytes;
        r->weights_before += bytes;
    }
    rt_mutex_unlock(&reservations_mu);
}
