/*
 * Converts between the client's structs and serialized messages of PredictionService and
 * ModelService. Messages from the server are not trusted. Before memory is allocated for a size
 * from a message, the size is compared with a limit.
 *
 * Threads: the functions have no state. Results are allocated in the caller's arena and never point
 * into the message.
 */
#ifndef CL_MESSAGE_H
#define CL_MESSAGE_H

#include "clients/c/slipway_client.h"
#include "runtime/base/arena.h"
#include "runtime/base/bytes.h"
#include "runtime/base/span.h"

/* ---- requests are appended to *out; out of memory: out->failed is set ---- */

/* Appends a PredictRequest to *out. Fails with INVALID_ARGUMENT if the model has no name or an
 * input is invalid. */
enum rt_status cl_write_predict(struct rt_bytes *out, const struct slipway_model *model,
                                const struct slipway_tensor *inputs, int n_inputs,
                                const char *const *outputs, int n_outputs, struct rt_error *err);
void cl_write_status_request(struct rt_bytes *out, const struct slipway_model *model);
void cl_write_metadata_request(struct rt_bytes *out, const struct slipway_model *model);
/* Converts the text of a model config file to a ReloadConfigRequest. If the text is malformed,
 * fails with INVALID_ARGUMENT and the message "LINE:COLUMN: reason". */
enum rt_status cl_write_reload_request(struct rt_bytes *out, const char *config,
                                       struct rt_error *err);
/* Appends the ModelSpec that is field 1 of each request to a model. */
void cl_put_model(struct rt_bytes *out, const struct slipway_model *model);
void cl_put_varint(struct rt_bytes *out, uint64_t v);
/* Appends a field of type bytes, string or message to *out. */
void cl_put_bytes(struct rt_bytes *out, uint32_t number, const void *p, size_t n);

/* ---- responses; DATA_LOSS with a reason: the response is malformed ---- */

/* Reads a PredictResponse. *budget is the number of bytes that tensors may still occupy. The
 * function subtracts the size of the response's tensors from *budget. */
enum rt_status cl_read_predict(struct rt_span message, struct rt_arena *arena, size_t *budget,
                               struct slipway_answer *out, struct rt_error *err);
/* Reads a TensorProto, and leaves out->name unchanged. */
enum rt_status cl_read_tensor(struct rt_span message, struct rt_arena *arena, size_t *budget,
                              struct slipway_tensor *out, struct rt_error *err);
enum rt_status cl_read_status(struct rt_span message, struct rt_arena *arena,
                              struct slipway_status *out, struct rt_error *err);
enum rt_status cl_read_metadata(struct rt_span message, struct rt_arena *arena,
                                struct slipway_metadata *out, struct rt_error *err);
/* Reads a ReloadConfigResponse and returns its status. *err receives the message, even if the
 * status is OK. */
enum rt_status cl_read_reload(struct rt_span message, struct rt_error *err);

#endif
