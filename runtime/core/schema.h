/*
 * What TensorFlow's registry says of an op: names and types of its arguments and attributes. The
 * table of all ops is generated (runtime/core/schema/generate.py) and never typed; an op that is in
 * it but has no rt_op is "known but not implemented".
 */
#ifndef RT_SCHEMA_H
#define RT_SCHEMA_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/core/types.h"

enum rt_attr_type {
    RT_ATTR_NONE,
    RT_ATTR_STRING,
    RT_ATTR_INT,
    RT_ATTR_FLOAT,
    RT_ATTR_BOOL,
    RT_ATTR_TYPE,
    RT_ATTR_SHAPE,
    RT_ATTR_TENSOR,
    RT_ATTR_FUNC,
    RT_ATTR_LIST = 16 /* + one of the above */
};

struct rt_arg_schema {
    const char *name;
    uint8_t type;       /* enum rt_dtype when fixed, else RT_NO_DTYPE */
    int8_t type_attr;   /* index of the attr that gives the type, or -1 */
    int8_t number_attr; /* index of the attr that gives how many, or -1: one */
    int8_t list_attr;   /* index of the list(type) attr, or -1 */
    bool is_ref;
};

struct rt_attr_schema {
    const char *name;
    uint8_t type; /* enum rt_attr_type */
    bool has_default, has_minimum;
    int64_t minimum;     /* of an int, or of a list's length */
    uint64_t types;      /* allowed types of a type or list(type) attr; 0: any */
    uint8_t n_strings;   /* allowed strings; 0: any */
    const char *strings; /* each followed by NUL */
    const char *value; /* the default, in the generator's compact text; rt_attr_default reads it */
};

struct rt_schema {
    const char *name;
    const struct rt_arg_schema *in, *out;
    const struct rt_attr_schema *attr;
    uint8_t n_in, n_out, n_attr;
};

const struct rt_schema *rt_schema_find(const char *op); /* NULL: TensorFlow has no such op */
int rt_schema_attr(const struct rt_schema *s, const char *name); /* index or -1 */
int rt_schema_count(void);
const struct rt_schema *rt_schema_at(int i); /* all of them, sorted by name */

#endif
