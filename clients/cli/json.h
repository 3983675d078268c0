/*
 * Tensors as JSON in TensorFlow Serving's two formats: rows ("instances", "predictions") and
 * columns ("inputs", "outputs"). NaN, Infinity and -Infinity may stand without quotes. Threads:
 * pure.
 */
#ifndef CL_JSON_H
#define CL_JSON_H

#include <jansson.h>

#include "clients/c/slipway_client.h"
#include "runtime/base/arena.h"
#include "runtime/base/bytes.h"
#include "runtime/base/span.h"

/* Parses any JSON value. INVALID_ARGUMENT: "line L column C: reason". *out must be freed by
 * json_decref. */
enum rt_status cl_json_load(struct rt_span text, json_t **out, struct rt_error *err);

/*
 * Reads the tensors in `body`, an object with one of the two keys. The specs give the tensors'
 * names and types; a tensor that the columns lack is left out. Strings may be {"b64": "..."}.
 * INVALID_ARGUMENT names the value that does not fit.
 */
enum rt_status cl_json_tensors(const json_t *body, const char *row_key, const char *column_key,
                               const struct slipway_input *specs, int n_specs,
                               struct rt_arena *arena, struct slipway_tensor **out, int *n_out,
                               bool *is_row, struct rt_error *err);

/* INVALID_ARGUMENT: none of the specs has this name; the text lists the names that exist. */
enum rt_status cl_check_name(const char *name, const struct slipway_input *specs, int n_specs,
                             struct rt_error *err);

/* Appends a request body with the tensors as columns. */
void cl_json_request(struct rt_bytes *out, const char *signature,
                     const struct slipway_tensor *inputs, int n);
/* Appends a response body: rows if `rows` is set and all outputs have the same number of rows,
 * otherwise columns. */
void cl_json_response(struct rt_bytes *out, const struct slipway_tensor *outputs, int n, bool rows);
/* Appends a string in quotes, or as {"b64": "..."} if it is not UTF-8. */
void cl_json_text(struct rt_bytes *out, const char *p, size_t n);

#endif
