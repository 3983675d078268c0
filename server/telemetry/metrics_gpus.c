/* Implements the metric families of GPUs (metrics_gpus.h). */
#include "server/telemetry/metrics_gpus.h"

#include <stdio.h>

#include "runtime/core/device/device_memory.h"
#include "server/telemetry/metrics_text.h"

/* The state of a GPU. The state is read once per metrics page, so that all metrics of the page
 * describe the same state. */
struct sample {
    struct rt_device *device;
    bool is_up;
    struct rt_device_sensors sensors;
    struct rt_device_counts memory;
};

struct gpus {
    const struct srv_text *text;
    struct rt_bytes *out;
    int n;
    struct sample gpu[RT_MAX_ACCELERATORS];
};

/* A metric of a GPU. `labels` follow the label "gpu", or are NULL. `value` sets the value, or
 * returns false if the value is unknown. */
struct metric {
    const char *name, *type, *help, *labels;
    bool (*value)(const struct sample *s, double *value);
};

static bool up(const struct sample *s, double *value)
{
    *value = s->is_up;
    return true;
}

static bool known(int64_t number, double unit, double *value)
{
    *value = (double)number * unit;
    return number >= 0;
}

static bool utilisation(const struct sample *s, double *value)
{
    return known(s->sensors.utilisation_percent, 0.01, value);
}

static bool temperature(const struct sample *s, double *value)
{
    return known(s->sensors.temperature_celsius, 1, value);
}

static bool free_bytes(const struct sample *s, double *value)
{
    return known(s->sensors.free_bytes, 1, value);
}

static bool total_bytes(const struct sample *s, double *value)
{
    return known(s->sensors.total_bytes, 1, value);
}

static bool weights(const struct sample *s, double *value)
{
    return known(s->memory.used[RT_DEVICE_WEIGHTS], 1, value);
}

static bool activations(const struct sample *s, double *value)
{
    return known(s->memory.used[RT_DEVICE_BLOCKS], 1, value);
}

static bool tensors(const struct sample *s, double *value)
{
    return known(s->memory.used[RT_DEVICE_TENSORS], 1, value);
}

static bool cached(const struct sample *s, double *value)
{
    return known(s->memory.cached, 1, value);
}

static bool limit(const struct sample *s, double *value)
{
    *value = (double)s->memory.limit;
    return s->memory.limit != INT64_MAX;
}

#define TOTAL(member, unit)                                                                        \
    static bool total_##member(const struct sample *s, double *value)                              \
    {                                                                                              \
        return known(atomic_load(&s->device->totals.member), unit, value);                         \
    }
TOTAL(regions, 1)
TOTAL(recorded, 1)
TOTAL(busy_ns, 1e-9)
TOTAL(waiting_ns, 1e-9)
TOTAL(bytes_in, 1)
TOTAL(bytes_out, 1)

static const struct metric metrics[] = {
    {"slipway_gpu_up", "gauge", "0: the GPU has failed.", NULL, up},
    {"slipway_gpu_memory_bytes", "gauge", "Bytes of a GPU's memory that this process uses.",
     ",use=\"weights\"", weights},
    {"slipway_gpu_memory_bytes", NULL, NULL, ",use=\"activations\"", activations},
    {"slipway_gpu_memory_bytes", NULL, NULL, ",use=\"tensors\"", tensors},
    {"slipway_gpu_memory_bytes", NULL, NULL, ",use=\"cache\"", cached},
    {"slipway_gpu_memory_limit_bytes", "gauge",
     "What --per_process_gpu_memory_fraction lets this process use.", NULL, limit},
    {"slipway_gpu_device_memory_bytes", "gauge",
     "Bytes of a GPU's memory in all, whoever uses them.", ",state=\"free\"", free_bytes},
    {"slipway_gpu_device_memory_bytes", NULL, NULL, ",state=\"total\"", total_bytes},
    {"slipway_gpu_utilisation_ratio", "gauge",
     "Part of the time in which a GPU was busy lately, of all processes.", NULL, utilisation},
    {"slipway_gpu_temperature_celsius", "gauge", "Temperature of a GPU.", NULL, temperature},
    {"slipway_gpu_regions_total", "counter", "Regions of plans that ran on a GPU.", NULL,
     total_regions},
    {"slipway_gpu_graphs_total", "counter", "Regions recorded as CUDA graphs.", NULL,
     total_recorded},
    {"slipway_gpu_busy_seconds_total", "counter",
     "Time for which runs held a GPU's streams, of all streams together.", NULL, total_busy_ns},
    {"slipway_gpu_wait_seconds_total", "counter", "Time for which runs waited for a stream.", NULL,
     total_waiting_ns},
    {"slipway_gpu_copied_bytes_total", "counter",
     "Bytes that regions copied to the GPU and from it.", ",direction=\"in\"", total_bytes_in},
    {"slipway_gpu_copied_bytes_total", NULL, NULL, ",direction=\"out\"", total_bytes_out},
};

static void write_metric(const struct gpus *g, const struct metric *m)
{
    if (m->type)
        srv_text_family(g->text, m->name, m->type, m->help);
    for (int k = 0; k < g->n; k++) {
        double value;
        if (m->value(&g->gpu[k], &value))
            rt_bytes_addf(g->out, "%s{gpu=\"%d\"%s} %.17g\n", m->name, g->gpu[k].device->index,
                          m->labels ? m->labels : "", value);
    }
}

static void write_info(const struct gpus *g)
{
    struct rt_bytes labels;
    rt_bytes_init(&labels, 4096);
    srv_text_family(g->text, "slipway_gpu_info", "gauge", "The GPUs that are used.");
    for (int k = 0; k < g->n; k++) {
        const struct rt_device *d = g->gpu[k].device;
        char index[12];
        snprintf(index, sizeof index, "%d", d->index);
        srv_text_begin_labels(&labels);
        srv_text_label(&labels, true, "gpu", index);
        srv_text_label(&labels, false, "model", d->model ? d->model : "");
        srv_text_label(&labels, false, "uuid", d->uuid ? d->uuid : "");
        rt_bytes_addf(g->out, "slipway_gpu_info{%s} 1\n", srv_text_labels(&labels, g->out));
    }
    rt_bytes_clear(&labels);
}

void srv_metrics_gpus(struct srv_server *server, const struct srv_text *text)
{
    struct gpus g = {.text = text, .out = text->out, .n = server->gpus.n};
    for (int k = 0; k < g.n; k++) {
        struct rt_device *d = server->gpus.device[k];
        struct sample *s = &g.gpu[k];
        *s = (struct sample){.device = d,
                             .is_up = !atomic_load(&d->has_failed),
                             .sensors = {-1, -1, -1, -1},
                             .memory = rt_device_counts(d)};
        if (d->sense)
            d->sense(d, &s->sensors);
    }
    if (!g.n)
        return;
    write_info(&g);
    for (size_t i = 0; i < sizeof metrics / sizeof *metrics; i++)
        write_metric(&g, &metrics[i]);
}
