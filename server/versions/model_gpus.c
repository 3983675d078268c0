/* Implements the choice of GPUs for models (model_gpus.h). */
#include "server/versions/model_gpus.h"

#include <string.h>

#include "runtime/base/log.h"
#include "runtime/core/device/device_list.h"
#include "runtime/core/device/device_ledger.h"
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
    if (m->gpu.full_precision != SRV_UNSET)
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

void srv_model_gpus_choose(const struct srv_server *s, const struct srv_gpu_use *use, uint64_t load,
                           struct rt_session_accelerators *out)
{
    *out = (struct rt_session_accelerators){.limit = (size_t)use->memory_bytes,
                                            .load = load,
                                            .max_runs = use->instances,
                                            .run_all = true};
    for (int k = 0; k < s->gpus.n; k++)
        if (use->allowed >> k & 1 && !atomic_load(&s->gpus.device[k]->has_failed))
            out->device[out->n++] = s->gpus.device[k];
}

void srv_model_gpus_log_no_room(const char *model, bool waits, const struct rt_error *why)
{
    RT_LOG(RT_LOG_WARNING, "model %s: %s; %s", model, rt_error_text(why),
           waits ? "the processor runs the model until the version that it replaces has freed its "
                   "memory"
                 : "the model does not use this GPU");
}

void srv_model_gpus_end_promises(const struct srv_server *s, uint64_t load)
{
    for (int k = 0; k < s->gpus.n; k++)
        rt_device_end_promises(s->gpus.device[k], load);
}
