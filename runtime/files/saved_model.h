/*
 * Reads SavedModel directories: saved_model.pb (or .pbtxt), variables/ and assets/. A struct
 * rt_saved_model lists the meta graphs, with their signatures, init and restore ops, assets, and
 * the bytes of their GraphDefs. rt_model_load makes a session from one meta graph.
 *
 * Source: tensorflow/core/protobuf/{saved_model,meta_graph,saver}.proto and the documented
 * behaviour of TensorFlow's loader.
 *
 * Owner: the caller that reads or loads the model. Threads: a struct rt_saved_model is immutable. A
 * model may be used on any thread (runtime/session/session.h); it may be freed only when no thread
 * uses it any more.
 */
#ifndef RT_SAVED_MODEL_H
#define RT_SAVED_MODEL_H

#include "runtime/session/session.h"

struct rt_tensor_spec {
    const char *alias;
    const char *name; /* name of the tensor in the graph, such as "x:0" */
    enum rt_dtype dtype;
    struct rt_shape shape;
    /* whether the rank is above RT_MAX_RANK; if so, `shape` is unknown */
    bool too_many_dims;
    /* default value from SignatureDef.defaults, or NULL if there is none */
    const struct rt_tensor *default_value;
    /* The default value as a serialized TensorProto, or empty if there is none. Repeated values are
     * not expanded, because a TensorProto of a few bytes may repeat one value millions of times. */
    struct rt_span default_proto;
};

struct rt_signature {
    const char *name;
    const char *method_name;
    int n_inputs, n_outputs;
    const struct rt_tensor_spec *inputs, *outputs; /* sorted by alias */
};

struct rt_asset {
    const char *tensor_name, *file_name;
};

struct rt_meta_graph {
    int n_tags;
    const char *const *tags;
    int n_signatures;
    /* the signatures except __saved_model_init_op, sorted by name */
    const struct rt_signature *signatures;
    /* The signature __saved_model_init_op, or NULL if there is none. Only the model's metadata
     * lists it. */
    const struct rt_signature *init_signature;
    /* total serialized size in bytes of all signatures, including init_signature */
    size_t signature_bytes;
    /* serialized GraphDef, part of rt_saved_model.bytes */
    struct rt_span graph_def;
    /* name of the node to run after the variables have been restored, or NULL if there is none */
    const char *init_op;
    /* Names of the ops that restore and save the variables, and of the tensor with the file name
     * for both, from SaverDef, or NULL. */
    const char *restore_op, *save_op, *filename_tensor;
    int n_assets;
    const struct rt_asset *assets;
    const char *tensorflow_version;
};

struct rt_saved_model {
    const char *dir;
    int n_meta_graphs;
    const struct rt_meta_graph *meta_graphs;
    struct rt_arena *arena; /* arena of all data of the members above */
    char *bytes;
    size_t n_bytes;
};

/* Reads the SavedModel in `dir`. If the file is missing, the error message is TensorFlow's: "Could
 * not find SavedModel .pb or .pbtxt at supplied export directory path: DIR...". Fails if `check`
 * fails. `check` may be NULL. */
enum rt_status rt_saved_model_read(struct rt_saved_model **out, const char *dir,
                                   const struct rt_check *check, struct rt_error *err);
/* Reads a SavedModel from a copy of `bytes` (for tests and fuzzing). */
enum rt_status rt_saved_model_parse(struct rt_saved_model **out, struct rt_span bytes, bool is_text,
                                    struct rt_error *err);
void rt_saved_model_free(struct rt_saved_model *m);
/* Chooses the meta graph with exactly these tags, or with only "serve" if `tags` is NULL. If there
 * is none, returns RT_NOT_FOUND with TensorFlow's message: "Could not find meta graph def matching
 * supplied tags: { serve }. ...". If the SavedModel file is empty, the message mentions this. */
enum rt_status rt_saved_model_choose(const struct rt_saved_model *m, const char *const *tags,
                                     int n_tags, const struct rt_meta_graph **out,
                                     struct rt_error *err);
/* Finds the spec with this alias. The n specs are sorted by alias. Returns NULL if no spec has the
 * alias. */
const struct rt_tensor_spec *rt_tensor_spec_find(const struct rt_tensor_spec *specs, int n,
                                                 struct rt_span alias);
const struct rt_tensor_spec *rt_signature_input(const struct rt_signature *s, const char *alias);
const struct rt_tensor_spec *rt_signature_output(const struct rt_signature *s, const char *alias);

/*
 * Checks that a version directory is complete: saved_model.pb parses, the assets exist, and, if the
 * graph has a restore op, the checkpoint's index parses and every shard has at least the size that
 * the index requires. If not, err names what is missing. Reads no weights. If `weight_bytes` is not
 * NULL, sets *weight_bytes to the minimum size of the loaded weights in bytes. If `check` fails,
 * returns the check's status. `check` may be NULL.
 */
enum rt_status rt_saved_model_is_complete(const char *dir, const char *const *tags, int n_tags,
                                          const struct rt_check *check, int64_t *weight_bytes,
                                          struct rt_error *err);

/* ---- a model in memory ---- */

struct rt_model_options {
    struct rt_session_options session;
    const char *const *tags; /* tags of the meta graph to load; NULL means { "serve" } */
    int n_tags;
    /* Whether to load a model even if some signatures cannot run. These signatures are skipped. */
    bool allow_unsupported_signatures;
    /* Whether to load all variables. Needed for SessionRun, which may run any node. */
    bool load_all_variables;
    /* Whether to run each signature once before serving, with unknown dimensions set to 1.
     * Signatures that change state are not run. */
    bool warm_up;
    /* Time limit for the warm-up of all signatures. 0 means the default of 120 s, which is also the
     * maximum. */
    int64_t warm_up_ns;
    void (*on_warm_up_failure)(void *arg, const char *signature, const struct rt_error *err);
    rt_no_room *on_no_room; /* called as rt_session_reserve describes; may be NULL */
    void *arg;
    /* Called before the first wait of each run of the load; may be NULL. */
    const struct rt_wait_hook *on_wait;
};

struct rt_model_signature {
    const struct rt_signature *def;
    /* The feeds are the inputs of `def`, and the fetches are its outputs. Both are in the order of
     * `def`. */
    struct rt_callable *call;
    /* whether the signature changes state, so that its requests are not batched */
    bool writes;
    /* Whether a run draws random numbers. Such a run must not be repeated, because the generators
     * of the nodes that have a seed advance. */
    bool draws;
    bool rowwise;
    /* why the signature is not `rowwise`; valid as long as the model */
    const char *why_not;
    /* Why the signature cannot run, or NULL if it can. If it cannot, `call` is NULL. */
    const char *unsupported;
    bool is_dynamic;
    /* Index of a dynamic signature, below `2 * RT_MAX_DYNAMIC_CALLABLES` and unique in its model.
     */
    int index;
    /* The first signature with the same tensors and shapes, or NULL if this signature is the first.
     * Only the first signature is checked, planned, analysed and warmed up. */
    const struct rt_model_signature *same;
};
/*
 * Maximum number of dynamic callables of each kind per model. The limit is needed because clients
 * can request any number of combinations of fetches. Callables with feeds and fetches chosen by a
 * client are counted separately from callables made from signatures, so that SessionRun cannot use
 * up the limit for MultiInference.
 */
enum { RT_MAX_DYNAMIC_CALLABLES = 256 };
/* Maximum number of signatures per model. Signatures with the same tensors count as one. */
enum { RT_MAX_SIGNATURES = 256 };

struct rt_dynamic_callables;

struct rt_model {
    struct rt_saved_model *saved_model;
    const struct rt_meta_graph *meta_graph;
    struct rt_session *session;
    int n_signatures;
    /* the signatures, in the order of meta_graph->signatures */
    struct rt_model_signature *signatures;
    int64_t weight_bytes;
    struct rt_arena *arena;
    struct rt_dynamic_callables *dynamic_callables;
};

/* Loads a model: reads and imports it, checks every op that a signature, the init op or the
 * restore op needs, restores variables, runs the init op, makes the plans, warms up the
 * signatures, and seals the session. If it returns RT_UNIMPLEMENTED, err lists everything that
 * is not implemented. */
enum rt_status rt_model_load(struct rt_model **out, const char *dir,
                             const struct rt_model_options *options, struct rt_error *err);
void rt_model_free(struct rt_model *m);
/*
 * Writes the present values of the model's variables, and of what else its SavedModel saves, as the
 * checkpoint DIR/variables/variables. Runs the SavedModel's own save op, so the checkpoint has the
 * names that its restore op reads. A write to a variable during the call is either in the
 * checkpoint or not; writes to several variables may be split. Returns RT_FAILED_PRECONDITION if
 * the SavedModel has no save op. Threads: any, but not before rt_model_load has returned.
 */
enum rt_status rt_model_save(struct rt_model *m, const char *dir,
                             const struct rt_run_options *options, struct rt_error *err);
const struct rt_model_signature *rt_model_signature(const struct rt_model *m, const char *name);
/* Returns the session's accelerators if at least one node of a signature is assigned to them.
 * Otherwise, returns no accelerators. */
const struct rt_session_accelerators *rt_model_accelerators(const struct rt_model *m);

/*
 * A dynamic callable has feeds and fetches that a client chooses (SessionRun). It is a signature
 * without a name. Its inputs and outputs are named after tensors, in the order of `spec`. It
 * belongs to the model and lives as long as the model. Threads: any.
 *
 * rt_model_find_dynamic returns an existing dynamic callable, or NULL. rt_model_make_dynamic makes
 * a dynamic callable, and may take long. If the graph lacks a tensor, the error message is
 * TensorFlow's. rt_model_make_dynamic returns RT_RESOURCE_EXHAUSTED if the model already has
 * RT_MAX_DYNAMIC_CALLABLES callables of the same kind. `shapes` contains the shapes of the feeds,
 * for row-wise analysis; if it is NULL, requests are not merged.
 */
const struct rt_model_signature *rt_model_find_dynamic(const struct rt_model *m,
                                                       const struct rt_call_spec *spec);
enum rt_status rt_model_make_dynamic(struct rt_model *m, const struct rt_call_spec *spec,
                                     const struct rt_shape *shapes,
                                     const struct rt_model_signature **out, struct rt_error *err);

#endif
