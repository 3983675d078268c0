/* Parses the input as a model configuration file and checks its contents. */
#include <stdlib.h>

#include "runtime/base/log.h"
#include "server/config/config.h"
#include "tests/fuzz/cost.h"

const struct fuzz_cost fuzz_cost = FUZZ_MESSAGE;

void fuzz_one(const uint8_t *data, size_t size)
{
    atomic_store(&rt_log_level, -1);
    struct srv_config *c = NULL, *again = NULL;
    struct rt_error err = {0};
    if (srv_config_from_text(rt_span_of(data, size), "fuzz", &c, &err))
        return;
    if (srv_config_from_text(rt_span_of(data, size), "fuzz", &again, &err) ||
        !srv_config_eq(c, again) || srv_config_check_transition(c, again, &err))
        abort();
    srv_config_check_platforms(c, again, &err);
    for (int i = 0; i < c->n_models; i++)
        if (srv_config_find(again, c->models[i].name) != &again->models[i])
            abort();
    srv_config_free(again);
    srv_config_free(c);
}
