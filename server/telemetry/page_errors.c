#include "server/telemetry/page_errors.h"

#include <inttypes.h>
#include <string.h>

#include "server/json/json.h"
#include "server/metrics/metrics_cells.h"
#include "server/base/api.h"

static void write_error(struct rt_bytes *out, const struct srv_last_error *e)
{
    rt_bytes_addf(out, "{\"at_ms\":%" PRId64 ",\"code\":\"%s\",\"api\":\"%s\",\"version\":\"",
                  e->at_ms, rt_status_name(e->code), srv_api_name(e->api));
    if (e->has_version)
        rt_bytes_addf(out, "%" PRId64, e->version);
    rt_bytes_adds(out, "\",\"text\":");
    srv_json_quote(out, e->text, strlen(e->text));
    rt_bytes_addc(out, '}');
}

enum rt_status srv_page_errors(const struct srv_metrics *m, const struct srv_map *map,
                               struct rt_span model, struct rt_bytes *out, struct rt_error *err)
{
    struct srv_last_error errors[SRV_LAST_ERRORS];
    const struct srv_map_model *known = map && model.n ? srv_map_model(map, model) : NULL;
    const struct srv_model_metrics *of = model.n || !m ? NULL : m->unknown;
    const struct rt_span shown = rt_error_name(err, model);

    if (known && known->n_versions && known->versions[0]->metrics)
        of = known->versions[0]->metrics->model;
    if (!of)
        return rt_fail(err, RT_NOT_FOUND, "the page has no errors of model %.*s: it does not serve",
                       (int)shown.n, (const char *)shown.p);
    const int n = srv_last_errors_copy(&of->errors, errors);
    rt_bytes_adds(out, "{\"errors\":[");
    for (int i = 0; i < n; i++) {
        if (i)
            rt_bytes_addc(out, ',');
        write_error(out, &errors[i]);
    }
    rt_bytes_adds(out, "]}\n");
    return RT_OK;
}
