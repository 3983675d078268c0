/*
 * Attribute values, from the message (tensorflow.AttrValue) and from a schema's default, into
 * struct rt_attr.
 *
 * Owner: everything made lives in the arena of the reader; tensors are kept by `held` and dropped
 * with rt_attr_drop.
 */
#ifndef RT_ATTR_H
#define RT_ATTR_H

#include "runtime/base/arena.h"
#include "runtime/core/graph.h"

#include "tensorflow/core/framework/attr_value.pb-c.h"

struct rt_held_tensor {
    struct rt_tensor tensor;
    struct rt_held_tensor *next;
};

struct rt_attr_reader {
    struct rt_arena *arena;
    struct rt_held_tensor **held;
    /* What replaces placeholders; NULL: there are none to be replaced. */
    const struct rt_func_ref *with;
    /* Bytes that tensors may still take beyond those that their messages hold: a few bytes of a
     * message can name gigabytes of one repeated value. */
    size_t *splat_left;
};

/* `want`: the type by the schema (enum rt_attr_type), RT_ATTR_NONE to take what the message says.
 * The reason ends where TensorFlow's would go on with the name of the attribute. */
enum rt_status rt_attr_read(const struct rt_attr_reader *r, const Tensorflow__AttrValue *v,
                            int want, struct rt_attr *out, struct rt_error *err);
enum rt_status rt_func_ref_read(const struct rt_attr_reader *r, const Tensorflow__NameAttrList *v,
                                struct rt_func_ref *out, struct rt_error *err);
/* The schema's own default; it has one. */
enum rt_status rt_attr_default(const struct rt_attr_reader *r, const struct rt_attr_schema *s,
                               struct rt_attr *out, struct rt_error *err);
/* Allowed types and strings, minimums. The text is TensorFlow's. */
enum rt_status rt_attr_check(const struct rt_attr_schema *s, const struct rt_attr *a,
                             struct rt_error *err);
const char *rt_attr_type_name(int type); /* "list(int)" */
void rt_attr_drop(struct rt_held_tensor *held);

#endif
