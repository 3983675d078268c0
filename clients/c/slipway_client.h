/*
 * A client of Slipway and of TensorFlow Serving over gRPC: predict, status, metadata, reload.
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
 * Every call blocks until the answer is there or its time is over. Every call that can fail returns
 * its code and, when it is not SLIPWAY_OK, has written a sentence into *err (never NULL) and left
 * what it would have given NULL. Structs are meant to be zeroed: zero is each field's default.
 *
 * Threads: a client may be used by any number of threads at once; what a call gives belongs to its
 * caller alone. Arguments are read during the call and not kept.
 */
#ifndef SLIPWAY_CLIENT_H
#define SLIPWAY_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* gRPC's canonical codes: a server's answer keeps its own. */
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
    SLIPWAY_DATA_LOSS = 15, /* the answer could not be understood */
    SLIPWAY_UNAUTHENTICATED = 16,
};

struct slipway_error {
    enum slipway_code code;
    char text[1280]; /* what the server said, or what is wrong here; a longer text is cut */
};

const char *slipway_code_name(enum slipway_code code); /* "NOT_FOUND" */

/* ---- tensors ---- */

/* TensorFlow's numbers (DT_FLOAT, ...), and the C type of an element. */
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

const char *slipway_dtype_name(int dtype); /* "DT_FLOAT"; "DT_INVALID" for a stranger */
size_t slipway_dtype_size(int dtype);      /* of an element in memory; 0 for a stranger */

enum { SLIPWAY_MAX_RANK = 32 };

struct slipway_string {
    const char *p; /* any bytes; in what a call gives, a NUL that n does not count follows */
    size_t n;
};

/*
 * A dense tensor, row-major: the last dimension is the fastest. Plain data; a tensor never owns
 * what it points to. Rank 0 is a single value.
 */
struct slipway_tensor {
    const char *name; /* the signature's name of the input or output */
    int dtype;        /* enum slipway_dtype */
    int rank;
    int64_t dim[SLIPWAY_MAX_RANK];
    const void *data; /* as many elements as the product of dims; NULL when that is 0 */
};

/* The product of dims; -1 when one is negative or the product does not fit. */
int64_t slipway_count(const struct slipway_tensor *t);

/* ---- the connection ---- */

struct slipway_client;

struct slipway_options {
    const char *address; /* "HOST:PORT", "unix:/path", or any other of gRPC's targets */
    bool tls;            /* else plain text */
    /* PEM texts, not paths. ca: whom to trust instead of the system's list. cert and key: who we
     * are, both or none. */
    const char *ca, *cert, *key;
    const char *server_name;  /* TLS: the name that the certificate must hold, if not the address */
    const char *token;        /* sent with each call as "authorization: Bearer TOKEN" */
    size_t max_message_bytes; /* of an answer, and of the tensors in it; 0: 2 GiB - 1 */
    bool own_connection;      /* do not share a connection with other clients of this process */
};

/*
 * Does not connect yet: an address where nobody listens is found by the first call (UNAVAILABLE).
 * NULL with *err: INVALID_ARGUMENT (no address, a certificate without key, ...).
 */
struct slipway_client *slipway_client_new(const struct slipway_options *options,
                                          struct slipway_error *err);
/* No call may be under way. NULL is fine. */
void slipway_client_free(struct slipway_client *c);

/* Which model: `version` wins over `label`; neither means the newest that is served. */
struct slipway_model {
    const char *name;
    bool has_version;
    int64_t version;
    const char *label;
    const char *signature; /* predict only; NULL: "serving_default" */
};

struct slipway_call {
    int64_t timeout_ms;         /* 0: none. After it: DEADLINE_EXCEEDED */
    const char *const *outputs; /* predict: only these; NULL: all of the signature */
    int n_outputs;
};

/* ---- predict ---- */

struct slipway_answer {
    const char *model, *signature; /* as the server named them */
    int64_t version;
    int n_outputs;
    const struct slipway_tensor *outputs; /* sorted by name; data is aligned to its element */
};

/*
 * The tensors' shapes are the server's to judge: they are sent as they are. `call` may be NULL.
 * INVALID_ARGUMENT before anything is sent: no model name, an input without name, of an unknown
 * dtype or with a bad shape. *out is freed by slipway_answer_free and lives until then, whatever
 * becomes of the client.
 */
enum slipway_code slipway_predict(struct slipway_client *c, const struct slipway_model *model,
                                  const struct slipway_tensor *inputs, int n_inputs,
                                  const struct slipway_call *call, struct slipway_answer **out,
                                  struct slipway_error *err);
void slipway_answer_free(struct slipway_answer *a); /* NULL is fine */
/* The output called `name`, NULL when there is none. */
const struct slipway_tensor *slipway_output(const struct slipway_answer *a, const char *name);

/* ---- status ---- */

enum slipway_state { /* ModelVersionStatus.State */
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
    int state;             /* enum slipway_state */
    enum slipway_code why; /* other than SLIPWAY_OK: why it is not served */
    const char *text;      /* the reason, or "" */
};
struct slipway_status {
    int n_versions;
    const struct slipway_version *versions; /* in the server's order */
};

/* Of one version when the model has one, else of all that the server has known. NOT_FOUND: none. */
enum slipway_code slipway_status(struct slipway_client *c, const struct slipway_model *model,
                                 const struct slipway_call *call, struct slipway_status **out,
                                 struct slipway_error *err);
void slipway_status_free(struct slipway_status *s); /* NULL is fine */

/* ---- metadata ---- */

struct slipway_input {       /* or an output */
    const char *name;        /* what callers use */
    const char *tensor_name; /* of the graph: "x:0" */
    int dtype;
    int rank;                      /* -1: unknown */
    int64_t dim[SLIPWAY_MAX_RANK]; /* -1: any */
};
struct slipway_signature {
    const char *name, *method;
    int n_inputs, n_outputs; /* each sorted by name */
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
void slipway_metadata_free(struct slipway_metadata *m); /* NULL is fine */

/* ---- reload ---- */

/*
 * Replaces all that the server serves by `config`, the text of a model config file
 * ("model_config_list { config { ... } }"). Returns when each new model is served or has failed.
 * INVALID_ARGUMENT with "LINE:COLUMN: reason" when the text is wrong, before anything is sent.
 */
enum slipway_code slipway_reload(struct slipway_client *c, const char *config,
                                 const struct slipway_call *call, struct slipway_error *err);

/* ---- any other method ---- */

/*
 * Sends the serialized `request` to a unary method ("/package.Service/Method") and gives the
 * serialized answer, to be freed by free(); it is not NULL even when it is empty.
 */
enum slipway_code slipway_unary(struct slipway_client *c, const char *method, const void *request,
                                size_t n, const struct slipway_call *call, unsigned char **out,
                                size_t *n_out, struct slipway_error *err);

#ifdef __cplusplus
}
#endif
#endif
