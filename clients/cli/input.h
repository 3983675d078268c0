/*
 * The inputs that a user gives to a command. They are either JSON text, which the server validates,
 * or tensors for a signature. Threads: no state; only cl_input_read performs I/O.
 */
#ifndef CL_INPUT_H
#define CL_INPUT_H

#include "clients/cli/flags.h"
#include "clients/cli/remote.h"

struct cl_input {
    const char *json; /* JSON text of the inputs, or NULL if the inputs are tensors */
    int n;
    struct slipway_tensor *tensors; /* the tensors have no names until cl_input_bind sets them */
};

/*
 * Reads the inputs of a command. `words` are file names, "-" (standard input), or JSON texts;
 * `named` are ALIAS=FILE, as cl_check_pairs has checked. The kind of an input depends on its
 * contents and name: .npy and .npz files are tensors; JSON is the content of a .json file, of
 * standard input, or of the word itself; every other file becomes one element of a string tensor.
 * With `is_raw` all files become strings.
 */
enum rt_status cl_input_read(const struct cl_list *words, const struct cl_list *named, bool is_raw,
                             struct rt_arena *arena, struct cl_input *out, struct rt_error *err);

/* Checks that each text given for `flag` has the form "ALIAS=...". The error message shows the
 * example `form`. */
enum rt_status cl_check_pairs(const char *flag, const char *form, const struct cl_list *texts,
                              struct rt_error *err);

/* Returns a complete request body with the JSON of `in`. If the JSON is not a complete body, a
 * list becomes the rows and any other value the columns of a new body. Returns NULL if memory
 * runs out. */
const char *cl_input_body(const struct cl_input *in, bool is_whole, const char *signature,
                          struct rt_arena *arena);
/* Converts the inputs to tensors with the names and types in the signature. *is_row receives
 * whether the inputs were JSON rows. */
enum rt_status cl_input_bind(struct cl_input *in, const struct slipway_signature *s,
                             struct rt_arena *arena, bool *is_row, struct rt_error *err);

#endif
