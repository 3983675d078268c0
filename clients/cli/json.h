/*
 * Tensors as JSON, in TensorFlow Serving's two forms: rows ("instances", "predictions") and columns
 * ("inputs", "outputs"). NaN, Infinity and -Infinity may stand bare. Threads: pure.
 */
#ifndef CL_JSON_H
#define CL_JSON_H

#include <jansson.h>

#include "clients/c/slipway_client.h"
#include "runtime/base/arena.h"
#include "runtime/base/bytes.h"
#include "runtime/base/span.h"

/* Any value. INVALID_ARGUMENT: "line L column C: reason". Freed by json_decref. */
enum rt_status cl_json_load(struct rt_span text, json_t **out, struct rt_error *err);

/*
 * The tensors in `body`, an object with one of the two keys, as the specs say their types are; a
 * spec that the columns leave out is left out. Strings may be {"b64": "..."}.
 * INVALID_ARGUMENT: what does not fit, by its name.
 */
enum rt_status cl_json_tensors(const json_t *body, const char *row_key, const char *column_key,
                               const struct slipway_input *specs, int n_specs,
                               struct rt_arena *arena, struct slipway_tensor **out, int *n_out,
                               bool *is_row, struct rt_error *err);

/* INVALID_ARGUMENT: none of them has that name, and which names there are. */
enum rt_status cl_check_name(const char *name, const struct slipway_input *specs, int n_specs,
                             struct rt_error *err);

/* A request body of tensors, by columns. */
void cl_json_request(struct rt_bytes *out, const char *signature,
                     const struct slipway_tensor *inputs, int n);
/* An answer's body: rows when asked for and when the outputs have equally many. */
void cl_json_response(struct rt_bytes *out, const struct slipway_tensor *outputs, int n, bool rows);
/* A string between quotes; what is no UTF-8 as {"b64": "..."}. */
void cl_json_text(struct rt_bytes *out, const char *p, size_t n);

#endif
