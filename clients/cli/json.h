/*
 * Converts tensors from and to JSON, in TensorFlow Serving's two formats: rows ("instances",
 * "predictions") and columns ("inputs", "outputs"). NaN, Infinity and -Infinity need no quotes.
 * Threads: pure functions.
 */
#ifndef CL_JSON_H
#define CL_JSON_H

#include <jansson.h>

#include "clients/c/slipway_client.h"
#include "runtime/base/arena.h"
#include "runtime/base/bytes.h"
#include "runtime/base/span.h"

/* Parses a JSON text, whose top-level value may have any type. Returns INVALID_ARGUMENT with the
 * error message "line L column C: reason" if the text is malformed. *out must be freed by
 * json_decref. */
enum rt_status cl_json_load(struct rt_span text, json_t **out, struct rt_error *err);

/*
 * Reads the tensors in `body`, an object with either row_key or column_key. The specs give the
 * tensors' names and types; in the column format, tensors that `body` lacks are omitted. Strings
 * may be written as {"b64": "..."}. If a value does not match its spec, returns INVALID_ARGUMENT
 * with an error message that names the value.
 */
enum rt_status cl_json_tensors(const json_t *body, const char *row_key, const char *column_key,
                               const struct slipway_input *specs, int n_specs,
                               struct rt_arena *arena, struct slipway_tensor **out, int *n_out,
                               bool *is_row, struct rt_error *err);

/* Fails with INVALID_ARGUMENT if none of the specs has this name; the error message lists the names
 * that exist. */
enum rt_status cl_check_name(const char *name, const struct slipway_input *specs, int n_specs,
                             struct rt_error *err);

/* Appends a request body that holds the tensors in the column format. */
void cl_json_request(struct rt_bytes *out, const char *signature,
                     const struct slipway_tensor *inputs, int n);
/* Appends a response body, in the row format if `rows` is set and all outputs have the same number
 * of rows, otherwise in the column format. */
void cl_json_response(struct rt_bytes *out, const struct slipway_tensor *outputs, int n, bool rows);
/* Appends a string in quotes, or as {"b64": "..."} if the string is not UTF-8. */
void cl_json_text(struct rt_bytes *out, const char *p, size_t n);

#endif
