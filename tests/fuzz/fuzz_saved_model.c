/* Reads arbitrary bytes as a SavedModel. The reader may refuse the bytes. */
#include <stddef.h>
#include <stdint.h>

#include "runtime/files/saved_model.h"
#include "tests/fuzz/cost.h"

const struct fuzz_cost fuzz_cost = FUZZ_MESSAGE;

void fuzz_one(const uint8_t *data, size_t size)
{
    struct rt_error err = {0};
    struct rt_saved_model *m;
    const struct rt_meta_graph *g;

    if (rt_saved_model_parse(&m, rt_span_of(data, size), false, &err))
        return;
    if (rt_saved_model_choose(m, NULL, 0, &g, &err) == RT_OK && g->n_signatures)
        rt_signature_input(&g->signatures[0], "x");
    rt_saved_model_free(m);
}
