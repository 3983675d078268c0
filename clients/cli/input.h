/*
 * The inputs that a user gives to a command: JSON text, which the server validates, or tensors for
 * a signature. Threads: the functions have no state. Only cl_input_read performs I/O.
 */
#ifndef CL_INPUT_H
#define CL_INPUT_H

#include "clients/cli/flags.h"
#include "clients/cli/remote.h"

struct cl_input {
    const char *json; /* JSON text of the inputs, or NULL if they are tensors */
    int n;
    struct slipway_tensor *tensors; /* the tensors have no names before cl_input_bind */
};

/*
 * Reads the inputs of a command. Each of `words` is a file name, "-" (standard input) or a JSON
 * text. Each of `named` is ALIAS=FILE, as checked by cl_check_pairs. A .npy or .npz file contains
 * tensors. A .json file and standard input contain JSON. Every other file becomes an element of a
 * string tensor, as do all files if `is_raw` is set.
 */
enum rt_status cl_input_read(const struct cl_list *words, const struct cl_list *named, bool is_raw,
                             struct rt_arena *arena, struct cl_input *out, struct rt_error *err);

/* Checks that each value of `flag` has the form "ALIAS=...". The error shows the example `form`. */
enum rt_status cl_check_pairs(const char *flag, const char *form, const struct cl_list *texts,
                              struct rt_error *err);

/* Returns a request body with the JSON of `in`. Unless the JSON is a complete body, a list becomes
 * "instances", and any other value becomes "inputs". Returns NULL if memory runs out. */
const char *cl_input_body(const struct cl_input *in, bool is_whole, const char *signature,
                          struct rt_arena *arena);
/* Converts the inputs to tensors with the signature's names and types. Sets *is_row to whether the
 * inputs were JSON rows. */
enum rt_status cl_input_bind(struct cl_input *in, const struct slipway_signature *s,
                             struct rt_arena *arena, bool *is_row, struct rt_error *err);

#endif
