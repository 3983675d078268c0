#include "proto/field.h"

#include <stdlib.h>
#include <string.h>

#include "google/protobuf/wrappers.pb-c.h"
#include "tensorflow/core/framework/tensor.pb-c.h"
#include "tensorflow/core/protobuf/config.pb-c.h"
#include "tensorflow/core/protobuf/meta_graph.pb-c.h"
#include "tensorflow_serving/apis/get_model_metadata.pb-c.h"
#include "tensorflow_serving/config/logging_config.pb-c.h"
#include "tensorflow_serving/config/model_server_config.pb-c.h"
#include "tensorflow_serving/servables/tensorflow/saved_model_bundle_source_adapter.pb-c.h"
#include "tensorflow_serving/servables/tensorflow/session_bundle_source_adapter.pb-c.h"

bool pb_field_is_set(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f)
{
    static const char zeros[8];
    const void *p = (const char *)m + f->offset;
    const void *q = (const char *)m + f->quantifier_offset;

    if (f->label == PROTOBUF_C_LABEL_REPEATED)
        return *(const size_t *)q > 0;
    if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
        return *(const uint32_t *)q == f->id;
    if (f->type == PROTOBUF_C_TYPE_MESSAGE)
        return *(const void *const *)p != NULL;
    if (f->type == PROTOBUF_C_TYPE_STRING) {
        const char *s = *(const char *const *)p;
        return s && s != f->default_value && (*s || f->label == PROTOBUF_C_LABEL_OPTIONAL);
    }
    if (f->label != PROTOBUF_C_LABEL_NONE)
        return f->label == PROTOBUF_C_LABEL_REQUIRED || *(const protobuf_c_boolean *)q;
    switch (f->type) {
    case PROTOBUF_C_TYPE_BYTES:
        return ((const ProtobufCBinaryData *)p)->len > 0;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return memcmp(p, zeros, 8) != 0;
    case PROTOBUF_C_TYPE_BOOL:
        return *(const protobuf_c_boolean *)p;
    default:
        return memcmp(p, zeros, 4) != 0;
    }
}

size_t pb_fixed_bytes(ProtobufCType t)
{
    switch (t) {
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return 8;
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_FLOAT:
        return 4;
    default:
        return 0;
    }
}

size_t pb_element_bytes(ProtobufCType t)
{
    switch (t) {
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return 8;
    case PROTOBUF_C_TYPE_BOOL:
        return sizeof(protobuf_c_boolean);
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(void *);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    default:
        return 4;
    }
}

/* Returns the smallest power of two that is not less than n. Returns 0 for n = 0, and SIZE_MAX if
 * there is no such power of two. */
static size_t capacity_for(size_t n)
{
    if (n > SIZE_MAX / 2)
        return SIZE_MAX;
    return n < 2 ? n : (size_t)1 << (64 - __builtin_clzll((unsigned long long)n - 1));
}

size_t pb_append_bytes(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f, size_t n)
{
    const size_t have = *(const size_t *)(const void *)((const char *)m + f->quantifier_offset);
    const size_t size = pb_element_bytes(f->type);

    if (n > SIZE_MAX - have || capacity_for(have + n) > SIZE_MAX / 2 / size)
        return SIZE_MAX;
    return (capacity_for(have + n) - capacity_for(have)) * size;
}

void *pb_append(ProtobufCMessage *m, const ProtobufCFieldDescriptor *f, size_t n)
{
    size_t *have = (size_t *)(void *)((char *)m + f->quantifier_offset);
    void **array = (void **)(void *)((char *)m + f->offset);
    const size_t size = pb_element_bytes(f->type), more = pb_append_bytes(m, f, n);

    if (more) {
        void *p = more < SIZE_MAX ? realloc(*array, capacity_for(*have + n) * size) : NULL;
        if (!p)
            return NULL;
        *array = p;
    }
    char *first = (char *)*array + *have * size;
    memset(first, 0, n * size);
    *have += n;
    return first;
}

void *pb_set_field(ProtobufCMessage *m, const ProtobufCFieldDescriptor *f)
{
    void *quantifier = (char *)m + f->quantifier_offset;

    if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
        *(uint32_t *)quantifier = f->id;
    else if (f->label == PROTOBUF_C_LABEL_OPTIONAL && f->type != PROTOBUF_C_TYPE_STRING &&
             f->type != PROTOBUF_C_TYPE_MESSAGE)
        *(protobuf_c_boolean *)quantifier = 1;
    return (char *)m + f->offset;
}

const ProtobufCMessageDescriptor *pb_any_type(struct rt_span name)
{
    static const ProtobufCMessageDescriptor *const known[] = {
        &google__protobuf__bool_value__descriptor,
        &google__protobuf__bytes_value__descriptor,
        &google__protobuf__double_value__descriptor,
        &google__protobuf__float_value__descriptor,
        &google__protobuf__int32_value__descriptor,
        &google__protobuf__int64_value__descriptor,
        &google__protobuf__string_value__descriptor,
        &google__protobuf__uint32_value__descriptor,
        &google__protobuf__uint64_value__descriptor,
        &tensorflow__asset_file_def__descriptor,
        &tensorflow__config_proto__descriptor,
        &tensorflow__tensor_proto__descriptor,
        &tensorflow__serving__batching_parameters__descriptor,
        &tensorflow__serving__log_collector_config__descriptor,
        &tensorflow__serving__logging_config__descriptor,
        &tensorflow__serving__model_server_config__descriptor,
        &tensorflow__serving__saved_model_bundle_source_adapter_config__descriptor,
        &tensorflow__serving__session_bundle_config__descriptor,
        &tensorflow__serving__session_bundle_source_adapter_config__descriptor,
        &tensorflow__serving__signature_def_map__descriptor,
    };
    for (size_t i = 0; i < sizeof known / sizeof(known[0]); i++)
        if (rt_span_is(name, known[i]->name))
            return known[i];
    return NULL;
}
