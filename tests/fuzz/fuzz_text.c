/* Reads arbitrary bytes as messages in protobuf's text format. The parser may refuse the bytes. A
 * message that was read is packed and unpacked again. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "proto/text.h"
#include "proto/unpack.h"
#include "google/protobuf/wrappers.pb-c.h"
#include "tensorflow/core/framework/graph.pb-c.h"
#include "tensorflow/core/protobuf/config.pb-c.h"
#include "tensorflow/core/protobuf/saved_model.pb-c.h"
#include "tensorflow_serving/config/model_server_config.pb-c.h"
#include "tensorflow_serving/config/platform_config.pb-c.h"
#include "tests/fuzz/cost.h"

const struct fuzz_cost fuzz_cost = FUZZ_MESSAGE;

void fuzz_one(const uint8_t *data, size_t size)
{
    const ProtobufCMessageDescriptor *const kinds[] = {
        &tensorflow__serving__model_server_config__descriptor,
        &tensorflow__graph_def__descriptor,
        &tensorflow__serving__platform_config_map__descriptor,
        &tensorflow__config_proto__descriptor,
        &google__protobuf__double_value__descriptor,
        &google__protobuf__bytes_value__descriptor,
        &tensorflow__saved_model__descriptor};
    struct rt_error err = {0};

    for (size_t i = 0; i < sizeof kinds / sizeof(kinds[0]); i++) {
        ProtobufCMessage *m;
        if (pb_text_parse(&m, kinds[i], rt_span_of(data, size), &err))
            continue;
        size_t n = protobuf_c_message_get_packed_size(m);
        uint8_t *p = malloc(n + 1);
        if (p && protobuf_c_message_pack(m, p) != n)
            abort();
        pb_free(p ? pb_unpack(kinds[i], rt_span_of(p, n), "x", &err) : NULL);
        free(p);
        pb_free(m);
    }
}
