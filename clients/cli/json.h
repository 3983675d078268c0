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

/* Parses a JSON text whose top-level value may have any type. If the text is malformed, fails with
 * INVALID_ARGUMENT and the message "line L column C: reason". The caller must free *out with
 * json_decref. */
enum rt_status cl_json_load(struct rt_span text, json_t **out, struct rt_error *err);

/*
 * Reads the tensors in `body`, an object with the member row_key or column_key. The specs are the
 * tensors' names and types. In the column format, `body` may lack tensors, which are then omitted.
 * A string may be {"b64": "..."}. If a value does not match its spec, fails with INVALID_ARGUMENT,
 * and the error names the value.
 */
enum rt_status cl_json_tensors(const json_t *body, const char *row_key, const char *column_key,
                               const struct slipway_input *specs, int n_specs,
                               struct rt_arena *arena, struct slipway_tensor **out, int *n_out,
                               bool *is_row, struct rt_error *err);

/* Fails with INVALID_ARGUMENT if no spec is called `name`. The error lists the names of all
 * specs. */
enum rt_status cl_check_name(const char *name, const struct slipway_input *specs, int n_specs,
                             struct rt_error *err);

/* Appends a request body with the tensors in the column format. */
void cl_json_request(struct rt_bytes *out, const char *signature,
                     const struct slipway_tensor *inputs, int n);
/* Appends a response body. It has the row format if `rows` is set and all outputs have the same
 * number of rows, and otherwise the column format. */
void cl_json_response(struct rt_bytes *out, const struct slipway_tensor *outputs, int n, bool rows);
/* Appends a string in quotes, or as {"b64": "..."} if the string is not UTF-8. */
void cl_json_text(struct rt_bytes *out, const char *p, size_t n);
/* Appends a number as TensorFlow Serving does. The printf format is %g if the result reads back as
 * the same number. Otherwise, the number has 9 digits (float) or 17 digits (double). */
void cl_json_real(struct rt_bytes *out, double v, bool is_double);

#endif
