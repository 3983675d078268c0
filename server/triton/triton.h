/*
 * Reads config.pbtxt, the configuration of a model in a model repository of Triton Inference
 * Server. The file is in the model's directory, and applies to the versions whose SavedModel is in
 * MODEL/VERSION/model.savedmodel.
 *
 * A field that would make the server answer otherwise than Triton is refused, and the version is
 * not served. The error message names the file, the position and the field. A field that has no
 * effect on this server is listed in `ignored`.
 *
 * Owner: a configuration belongs to the load of a version, and then to the version. Threads: a
 * configuration is immutable once it is read.
 */
#ifndef SRV_TRITON_H
#define SRV_TRITON_H

#include "server/config/batching.h"
#include "server/config/config.h"

struct rt_model;
struct Inference__ModelConfig;
struct srv_triton_labels;

#define SRV_TRITON_FILE "config.pbtxt"

/* The position of a field's name in the file. */
struct srv_triton_place {
    const void *field; /* the field's ProtobufCFieldDescriptor */
    int64_t line, column;
};

struct srv_triton {
    struct rt_arena *arena;
    const char *path; /* path of the file, for error messages */
    struct Inference__ModelConfig *message;
    /* the positions of the fields in the order of the text; those beyond the limit are left out */
    int n_places;
    struct srv_triton_place *places;
    /* Names and lines of the fields without effect, or NULL if there is none. */
    const char *ignored;
    const char *graph_tag; /* the parameter TF_GRAPH_TAG, or NULL */
    /* the parameter TF_SIGNATURE_DEF: the signature that the model's name stands for; or NULL */
    const char *signature;
    /* the labels of outputs (triton_labels.h), or NULL if they were not read */
    const struct srv_triton_labels *labels;
    int64_t n_instances; /* number of batches that may run at a time, or 0 for no limit */
    bool has_warmup;     /* whether there are requests in model_warmup */
    bool on_cpu;         /* whether all instances are to run on the CPU */
};

/* Parses a configuration. `path` is the file's path, used only in error messages. */
enum rt_status srv_triton_parse(struct rt_span text, const char *path, struct srv_triton **out,
                                struct rt_error *err);
/* Reads the configuration of the model with the base path `base_path`. Sets *out to NULL if there
 * is no file. */
enum rt_status srv_triton_read(const char *base_path, struct srv_triton **out,
                               struct rt_error *err);
/* Reads the configuration that applies to a version, whose SavedModel is in `dir`, and the labels
 * of its outputs. Sets *out to NULL if there is none. */
enum rt_status srv_triton_read_for(const char *dir, struct srv_triton **out, struct rt_error *err);
/* Returns the length of the base path in `dir`, the directory of a SavedModel, if the SavedModel
 * lies as in Triton's repositories: BASE_PATH/VERSION/model.savedmodel. Otherwise returns 0. */
size_t srv_triton_base_length(const char *dir);
/* Refuses a configuration whose field `name` is neither the name of the model nor that of the
 * directory of the file: as Triton does, because the file may be that of another model. */
enum rt_status srv_triton_check_name(const struct srv_triton *t, const char *model,
                                     struct rt_error *err);
void srv_triton_free(struct srv_triton *t); /* `t` may be NULL */

/* Returns the name of the signature that the model's name stands for; `t` may be NULL. */
const char *srv_triton_signature(const struct srv_triton *t);

/* Fails with INVALID_ARGUMENT. The error message begins with the file, the position of the n-th
 * occurrence, counted from 0, of the field `name` of `type`, and the field's name. */
enum rt_status srv_triton_fail(const struct srv_triton *t, const void *type, const char *name,
                               size_t n, struct rt_error *err, const char *fmt, ...)
    RT_PRINTF(6, 7);

/* Replaces the version policy of *m by that of the configuration, if the configuration has one. The
 * policy points into the configuration. */
void srv_triton_policy(const struct srv_triton *t, struct srv_model_config *m);
/* Replaces the parameters in *b that the configuration sets. */
void srv_triton_batching(const struct srv_triton *t, struct srv_batching *b);
/* What instance_group says about the GPUs of a server. Passive groups do not count. */
struct srv_triton_gpus {
    bool is_set;       /* whether the other members apply; without groups they do not */
    bool needs_gpu;    /* whether a group is of KIND_GPU or names GPUs */
    bool has_cpu;      /* whether a group is of KIND_CPU */
    bool is_uneven;    /* whether some GPUs have fewer instances than `instances` */
    uint32_t allowed;  /* bit k is set if there are instances on GPU k */
    int64_t instances; /* maximum number of instances on a GPU, or 0 for no limit */
};
/* Reads instance_group for a server with n_gpus GPUs, at most RT_MAX_ACCELERATORS. Fails if a group
 * names another GPU and n_gpus is not 0. */
enum rt_status srv_triton_gpus(const struct srv_triton *t, int n_gpus, struct srv_triton_gpus *out,
                               struct rt_error *err);
/* Returns the number of the type in the enum DataType of model_config.proto, or 0 if the enum has
 * no such type. Sets *name to the type's name there without "TYPE_". */
int srv_triton_type(enum rt_dtype dtype, const char **name);
/* Returns the type with this number there, or RT_NO_DTYPE, and sets *name likewise. */
enum rt_dtype srv_triton_dtype(int number, const char **name);
/* Checks the inputs and outputs that the configuration lists against the model's signature. */
enum rt_status srv_triton_check_model(const struct srv_triton *t, const struct rt_model *model,
                                      struct rt_error *err);

#endif
