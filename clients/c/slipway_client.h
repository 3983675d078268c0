/*
 * A gRPC client for Slipway and TensorFlow Serving: predict, status, metadata and reload.
 *
 *     struct slipway_error err;
 *     struct slipway_client *c = slipway_client_new(&(struct slipway_options){.address =
 *         "127.0.0.1:8500"}, &err);
 *     const float x[] = {1, 2, 5};
 *     const struct slipway_tensor in = {.name = "x", .dtype = SLIPWAY_FLOAT, .rank = 1,
 *         .dim = {3}, .data = x};
 *     struct slipway_answer *answer;
 *     if (slipway_predict(c, &(struct slipway_model){.name = "half_plus_two"}, &in, 1,
 *                         &(struct slipway_call){.timeout_ms = 1000}, &answer, &err) == SLIPWAY_OK)
 *         ... answer->outputs[0].data ...
 *
 * Every call blocks until the response has arrived or the timeout has expired. A call that can fail
 * returns a code. If the code is not SLIPWAY_OK, *err contains an error message, and the result is
 * NULL. `err` must not be NULL. A struct field that is zero has its default value.
 *
 * Threads: any number of threads may use a client at the same time. The caller owns the result of
 * its call. A call reads its inputs before it returns. The client stores no pointers to the inputs.
 */
#ifndef SLIPWAY_CLIENT_H
#define SLIPWAY_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* gRPC's canonical status codes. The client returns the server's codes unchanged. */
enum slipway_code {
    SLIPWAY_OK = 0,
    SLIPWAY_CANCELLED = 1,
    SLIPWAY_UNKNOWN = 2,
    SLIPWAY_INVALID_ARGUMENT = 3,
    SLIPWAY_DEADLINE_EXCEEDED = 4,
    SLIPWAY_NOT_FOUND = 5,
    SLIPWAY_ALREADY_EXISTS = 6,
    SLIPWAY_PERMISSION_DENIED = 7,
    SLIPWAY_RESOURCE_EXHAUSTED = 8,
    SLIPWAY_FAILED_PRECONDITION = 9,
    SLIPWAY_ABORTED = 10,
    SLIPWAY_OUT_OF_RANGE = 11,
    SLIPWAY_UNIMPLEMENTED = 12,
    SLIPWAY_INTERNAL = 13,
    SLIPWAY_UNAVAILABLE = 14,
    SLIPWAY_DATA_LOSS = 15, /* the client received a malformed response */
    SLIPWAY_UNAUTHENTICATED = 16,
};

struct slipway_error {
    enum slipway_code code;
    char text[1280]; /* error message, truncated if it is too long */
};

const char *slipway_code_name(enum slipway_code code); /* "NOT_FOUND" */

/* ---- tensors ---- */

/* Data types with TensorFlow's numbers (DT_FLOAT, ...), and the C types of their elements. */
enum slipway_dtype {
    SLIPWAY_FLOAT = 1,       /* float */
    SLIPWAY_DOUBLE = 2,      /* double */
    SLIPWAY_INT32 = 3,       /* int32_t */
    SLIPWAY_UINT8 = 4,       /* uint8_t */
    SLIPWAY_INT16 = 5,       /* int16_t */
    SLIPWAY_INT8 = 6,        /* int8_t */
    SLIPWAY_STRING = 7,      /* struct slipway_string */
    SLIPWAY_COMPLEX64 = 8,   /* float[2] */
    SLIPWAY_INT64 = 9,       /* int64_t */
    SLIPWAY_BOOL = 10,       /* bool, one byte */
    SLIPWAY_BFLOAT16 = 14,   /* uint16_t, the bits */
    SLIPWAY_UINT16 = 17,     /* uint16_t */
    SLIPWAY_COMPLEX128 = 18, /* double[2] */
    SLIPWAY_HALF = 19,       /* uint16_t, the bits */
    SLIPWAY_UINT32 = 22,     /* uint32_t */
    SLIPWAY_UINT64 = 23,     /* uint64_t */
};
const char *slipway_dtype_name(int dtype); /* returns a name such as "DT_FLOAT", or "DT_INVALID" */
size_t slipway_dtype_size(int dtype);      /* element size in bytes, or 0 for an unknown type */

enum { SLIPWAY_MAX_RANK = 32 };

struct slipway_string {
    const char *p; /* arbitrary bytes; in a result, p[n] is always a NUL byte */
    size_t n;
};

/*
 * A dense tensor in row-major order, in which the last dimension varies fastest. A tensor never
 * owns the memory that it points to. A tensor of rank 0 has one element.
 */
struct slipway_tensor {
    const char *name; /* name of the input or output in the signature */
    int dtype;        /* an enum slipway_dtype */
    int rank;
    int64_t dim[SLIPWAY_MAX_RANK];
    const void *data; /* the elements in row-major order, or NULL if there are none */
};

/* Returns the product of the dimensions, or -1 if it overflows or a dimension is negative. */
int64_t slipway_count(const struct slipway_tensor *t);

/* ---- the connection ---- */

struct slipway_client;

struct slipway_options {
    const char *address; /* "HOST:PORT", "unix:/path", or another gRPC target */
    bool tls;
    /* Contents of PEM files, not paths. `ca` contains the certificate authorities to trust instead
     * of the system's. `cert` and `key` identify the client. Both or neither must be set. */
    const char *ca, *cert, *key;
    const char *server_name;  /* name in the server's certificate, or NULL for the host */
    const char *token;        /* bearer token of each call, or NULL */
    size_t max_message_bytes; /* maximum size of a response and its tensors; 0 means 2 GiB - 1 */
    bool own_connection;      /* whether the client must not share connections with other clients */
};

/*
 * Creates a client without connecting it. If no server listens at the address, the first call fails
 * with UNAVAILABLE. Returns NULL and fills *err on failure, e.g. for a certificate without a key.
 */
struct slipway_client *slipway_client_new(const struct slipway_options *options,
                                          struct slipway_error *err);
/* Frees a client, which may be NULL. No call of the client may be in progress. */
void slipway_client_free(struct slipway_client *c);

/* A model and its version. `version` takes precedence over `label`. If neither is set, the newest
 * served version is used. */
struct slipway_model {
    const char *name;
    bool has_version;
    int64_t version;
    const char *label;
    const char *signature; /* used only by predict; NULL means "serving_default" */
};

struct slipway_call {
    int64_t timeout_ms;         /* timeout of the call in milliseconds; 0 means no timeout */
    const char *const *outputs; /* names of the requested outputs; NULL means all outputs */
    int n_outputs;
};

/* ---- predict ---- */

struct slipway_answer {
    const char *model, *signature; /* the model and signature that were run */
    int64_t version;
    int n_outputs;
    const struct slipway_tensor *outputs; /* sorted by name; the data is aligned for its type */
};

/*
 * Runs a signature of a model. A NULL `call` means the defaults. Fails with INVALID_ARGUMENT before
 * sending anything if the model has no name, or if an input has no name, an unknown dtype or an
 * invalid shape. Only the server compares the tensors' shapes with the signature. *out may outlive
 * the client. The caller must free it with slipway_answer_free.
 */
enum slipway_code slipway_predict(struct slipway_client *c, const struct slipway_model *model,
                                  const struct slipway_tensor *inputs, int n_inputs,
                                  const struct slipway_call *call, struct slipway_answer **out,
                                  struct slipway_error *err);
void slipway_answer_free(struct slipway_answer *a); /* does nothing if `a` is NULL */
/* Returns the output called `name`, or NULL if `a` has no output of this name. */
const struct slipway_tensor *slipway_output(const struct slipway_answer *a, const char *name);

/* ---- status ---- */

enum slipway_state { /* values of ModelVersionStatus.State */
                     SLIPWAY_STATE_UNKNOWN = 0,
                     SLIPWAY_STATE_START = 10,
                     SLIPWAY_STATE_LOADING = 20,
                     SLIPWAY_STATE_AVAILABLE = 30,
                     SLIPWAY_STATE_UNLOADING = 40,
                     SLIPWAY_STATE_END = 50,
};
const char *slipway_state_name(int state); /* "AVAILABLE" */

struct slipway_version {
    int64_t version;
    int state;             /* an enum slipway_state */
    enum slipway_code why; /* the error code in the status of the version, or SLIPWAY_OK */
    const char *text;      /* the server's error message for the version, or "" */
};
struct slipway_status {
    int n_versions;
    const struct slipway_version *versions; /* the versions in the order of the server's response */
};

/* Requests the status of the version that `model` names, or of all versions if `model` names no
 * version. Fails with NOT_FOUND if the server does not have the model or the version. */
enum slipway_code slipway_status(struct slipway_client *c, const struct slipway_model *model,
                                 const struct slipway_call *call, struct slipway_status **out,
                                 struct slipway_error *err);
void slipway_status_free(struct slipway_status *s); /* does nothing if `s` is NULL */

/* ---- metadata ---- */

struct slipway_input { /* an input or output of a signature */
    const char *name;
    const char *tensor_name; /* name of the tensor in the graph, for example "x:0" */
    int dtype;
    int rank;                      /* -1 if unknown */
    int64_t dim[SLIPWAY_MAX_RANK]; /* -1 for any length */
};
struct slipway_signature {
    const char *name, *method;
    int n_inputs, n_outputs; /* inputs and outputs are sorted by name */
    const struct slipway_input *inputs, *outputs;
};
struct slipway_metadata {
    const char *model;
    int64_t version;
    int n_signatures; /* sorted by name */
    const struct slipway_signature *signatures;
};

enum slipway_code slipway_metadata(struct slipway_client *c, const struct slipway_model *model,
                                   const struct slipway_call *call, struct slipway_metadata **out,
                                   struct slipway_error *err);
void slipway_metadata_free(struct slipway_metadata *m); /* does nothing if `m` is NULL */

/* ---- reload ---- */

/* Replaces the server's entire model configuration with `config`, the text of a model config file
 * ("model_config_list { config { ... } }"). Returns when every new model has been loaded or has
 * failed. If the text is malformed, returns INVALID_ARGUMENT ("LINE:COLUMN: reason") without
 * sending it. On success, err->text is empty or names the models whose base path is invalid. These
 * models keep their previous versions. */
enum slipway_code slipway_reload(struct slipway_client *c, const char *config,
                                 const struct slipway_call *call, struct slipway_error *err);

/* ---- any other method ---- */

/*
 * Calls a unary method ("/package.Service/Method") with a serialized request. *out is the
 * serialized response, which is never NULL, even if it is empty. The caller must free() *out.
 */
enum slipway_code slipway_unary(struct slipway_client *c, const char *method, const void *request,
                                size_t n, const struct slipway_call *call, unsigned char **out,
                                size_t *n_out, struct slipway_error *err);

#ifdef __cplusplus
}
#endif
#endif
