/*
 * A SavedModel directory: saved_model.pb (or .pbtxt), variables/, assets/. Read here: which meta
 * graphs there are, their signatures, init and restore ops, assets, and the GraphDef's bytes.
 * rt_model_load makes a running session of one.
 *
 * Source: tensorflow/core/protobuf/{saved_model,meta_graph,saver}.proto and the loader's documented
 * behaviour.
 */
#ifndef RT_SAVED_MODEL_H
#define RT_SAVED_MODEL_H

#include "runtime/session/session.h"

struct rt_tensor_spec { /* one input or output of a signature */
    const char *alias;
    const char *name; /* of the graph's tensor: "x:0" */
    enum rt_dtype dtype;
    struct rt_shape shape;
    bool too_many_dims;                    /* rank above RT_MAX_RANK: shape says unknown */
    const struct rt_tensor *default_value; /* SignatureDef.defaults; NULL: none */
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
    const struct rt_signature
        *signatures; /* sorted by name; __saved_model_init_op not among them */
    const struct rt_signature *init_signature; /* that one, for who tells of it; NULL: none */
    struct rt_span graph_def;                  /* serialized; in the saved model's memory */
    const char *init_op;                       /* node to run after restore, NULL: none */
    const char *restore_op, *filename_tensor;  /* SaverDef; NULL: none */
    int n_assets;
    const struct rt_asset *assets;
    const char *tensorflow_version;
};

struct rt_saved_model {
    const char *dir;
    int n_meta_graphs;
    const struct rt_meta_graph *meta_graphs;
    struct rt_arena *arena; /* holds everything above */
    char *bytes;            /* the file */
    size_t n_bytes;
};

/* The message of a missing file is TensorFlow's: "Could not find SavedModel .pb or .pbtxt at
 * supplied export directory path: DIR...". */
enum rt_status rt_saved_model_read(struct rt_saved_model **out, const char *dir,
                                   struct rt_error *err);
/* As rt_saved_model_read, from bytes in memory (for tests and fuzzing); `bytes` is copied. */
enum rt_status rt_saved_model_parse(struct rt_saved_model **out, struct rt_span bytes, bool is_text,
                                    struct rt_error *err);
void rt_saved_model_free(struct rt_saved_model *m);
/* The one whose tags are exactly these ("serve" alone by default). NOT_FOUND with TensorFlow's
 * text: "Could not find meta graph def matching supplied tags: { serve }. ...". Behind it an empty
 * file is named. */
enum rt_status rt_saved_model_choose(const struct rt_saved_model *m, const char *const *tags,
                                     int n_tags, const struct rt_meta_graph **out,
                                     struct rt_error *err);
/* Of `n` specs sorted by alias, the one of this alias; NULL: it is none of theirs. */
const struct rt_tensor_spec *rt_tensor_spec_find(const struct rt_tensor_spec *specs, int n,
                                                 struct rt_span alias);
const struct rt_tensor_spec *rt_signature_input(const struct rt_signature *s, const char *alias);
const struct rt_tensor_spec *rt_signature_output(const struct rt_signature *s, const char *alias);

/* Everything a version directory must hold before it is worth loading: saved_model.pb parses, the
 * index is whole and every shard as long as it says (if the graph has a restore op), assets are
 * there. The reason otherwise. Reads no weights. *weight_bytes: of them, as they are loaded. */
enum rt_status rt_saved_model_is_complete(const char *dir, const char *const *tags, int n_tags,
                                          int64_t *weight_bytes, struct rt_error *err);

/* ---- a model in memory ---- */

struct rt_model_options {
    struct rt_session_options session;
    const char *const *tags; /* NULL: "serve" */
    int n_tags;
    bool allow_unsupported_signatures; /* leave out signatures that could not run */
    bool load_all_variables;           /* for sessions that run any node */
    bool warm_up; /* run each signature that writes nothing once, batch 1, unknown dims 1 */
    void (*on_warm_up_failure)(void *arg, const char *signature, const struct rt_error *err);
    void *arg;
};

struct rt_model_signature {
    const struct rt_signature *def;
    struct rt_callable *call; /* feeds and fetches in the order of def's inputs and outputs */
    bool writes;              /* changes state: runs alone */
    bool rowwise;             /* proved: may be merged with others along dimension 0 */
    const char *why_not;      /* when not rowwise: the reason; in the model's arena */
    const char *unsupported;  /* when left out: the reason; call is NULL */
    bool is_dynamic;          /* of rt_model_make_dynamic */
    int index; /* of an ad-hoc one, below RT_MAX_DYNAMIC_CALLABLES; unique in its model */
    /* The first signature with the same tensors and shapes: checked, planned, proved and warmed up
     * for both. NULL: this one. */
    const struct rt_model_signature *same;
};
enum { RT_MAX_DYNAMIC_CALLABLES = 256 }; /* a client may ask for any set of fetches */
enum { RT_MAX_SIGNATURES = 256 };        /* with different tensors, of one model */

struct rt_dynamic_callables;

struct rt_model {
    struct rt_saved_model *saved_model;
    const struct rt_meta_graph *meta_graph;
    struct rt_session *session;
    int n_signatures;
    struct rt_model_signature *signatures; /* as meta_graph->signatures */
    int64_t weight_bytes;
    struct rt_arena *arena;
    struct rt_dynamic_callables *dynamic_callables;
};

/* Read, import, check every op that a signature, init or restore reaches, restore, init, plan,
 * warm up, seal. UNIMPLEMENTED names all that is missing. */
enum rt_status rt_model_load(struct rt_model **out, const char *dir,
                             const struct rt_model_options *options, struct rt_error *err);
void rt_model_free(struct rt_model *m);
const struct rt_model_signature *rt_model_signature(const struct rt_model *m, const char *name);

/*
 * A call with feeds and fetches of its own choice, as a signature that is called by the names of
 * tensors: inputs and outputs in the order of `spec`, without a name. Any thread, while the model
 * lives, which keeps them.
 *
 * find: one that was made; never takes long. make: makes it, which takes a while; refuses with
 * TensorFlow's texts what the graph does not have, and more than RT_MAX_DYNAMIC_CALLABLES different
 * ones (RESOURCE_EXHAUSTED). `shapes`: of the feeds, to prove that requests may be merged (NULL:
 * they may not).
 */
const struct rt_model_signature *rt_model_find_dynamic(const struct rt_model *m,
                                                       const struct rt_call_spec *spec);
enum rt_status rt_model_make_dynamic(struct rt_model *m, const struct rt_call_spec *spec,
                                     const struct rt_shape *shapes,
                                     const struct rt_model_signature **out, struct rt_error *err);

#endif
