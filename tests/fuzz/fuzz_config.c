/* A model config file, from text to checked data. */
#include "server/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct srv_config *c = NULL;
    struct rt_error err = {0};
    if (!srv_config_from_text(rt_span_of(data, size), "fuzz", &c, &err))
        srv_config_free(c);
    return 0;
}
