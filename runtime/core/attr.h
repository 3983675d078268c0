/*
 * Reads attribute values into struct rt_attr, from the protobuf message tensorflow.AttrValue and
 * from the defaults of a schema.
 *
 * Owner: all values are allocated in the reader's arena. Tensors are also put into the list `held`,
 * which owns their buffers; rt_attr_drop frees them.
 */
#ifndef RT_ATTR_H
#define RT_ATTR_H

#include "runtime/base/arena.h"
#include "runtime/base/check.h"
#include "runtime/core/graph.h"

#include "tensorflow/core/framework/attr_value.pb-c.h"

struct rt_held_tensor {
    struct rt_tensor tensor;
    struct rt_held_tensor *next;
};

/* The maximum number of attributes of a function, defaults included. The limit bounds the time
 * needed to find the value of a placeholder. */
enum { RT_MAX_FUNC_ATTRS = 1000 };

struct rt_attr_reader {
    struct rt_arena *arena;
    struct rt_held_tensor **held;
    /* counter to which the sizes of the tensors in bytes are added */
    atomic_size_t *bytes;
    /* The function reference whose attributes replace placeholders, or NULL if a placeholder is an
     * error. */
    const struct rt_func_ref *with;
    /* Number of bytes to which repeated values may still expand, for all tensors together. The
     * limit is needed because a message of a few bytes can expand to gigabytes of one repeated
     * value. */
    size_t *splat_left;
    /* The check that long loops call. A loop ends if the check fails. May be NULL. */
    const struct rt_check *check;
};

/* Reads an attribute value. `want` is the type that the schema declares (enum rt_attr_type); with
 * RT_ATTR_NONE the message determines the type. The error message is TensorFlow's, without the
 * attribute's name at the end. */
enum rt_status rt_attr_read(const struct rt_attr_reader *r, const Tensorflow__AttrValue *v,
                            int want, struct rt_attr *out, struct rt_error *err);
enum rt_status rt_func_ref_read(const struct rt_attr_reader *r, const Tensorflow__NameAttrList *v,
                                struct rt_func_ref *out, struct rt_error *err);
/* Reads the default value of schema `s`, which must have one. */
enum rt_status rt_attr_default(const struct rt_attr_reader *r, const struct rt_attr_schema *s,
                               struct rt_attr *out, struct rt_error *err);
/* Checks a value against the schema's allowed types, allowed strings and minimum. The error message
 * is TensorFlow's. */
enum rt_status rt_attr_check(const struct rt_attr_reader *r, const struct rt_attr_schema *s,
                             const struct rt_attr *a, struct rt_error *err);
const char *rt_attr_type_name(int type); /* returns the name of a type, such as "list(int)" */
void rt_attr_drop(struct rt_held_tensor *held);

#endif
