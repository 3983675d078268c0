/*
 * The inputs that a user gives to a command: either JSON text that the server will check, or
 * tensors for a signature. Threads: pure, except that files are read.
 */
#ifndef CL_INPUT_H
#define CL_INPUT_H

#include "clients/cli/flags.h"
#include "clients/cli/remote.h"

struct cl_input {
    const char *json; /* NULL: the inputs are tensors */
    int n;
    struct slipway_tensor *tensors; /* without names until cl_input_bind sets them */
};

/*
 * Reads inputs. `words` are files, "-", or JSON; `named` are ALIAS=FILE. The kind of an input
 * depends on its content: .npy and .npz files are tensors; JSON comes from files named .json, from
 * standard input, or is the word itself; any other file is one string of a string tensor that has a
 * string for each of these files. With `is_raw` every file is such a string.
 */
enum rt_status cl_input_read(const struct cl_list *words, const struct cl_list *named, bool is_raw,
                             struct rt_arena *arena, struct cl_input *out, struct rt_error *err);

/* JSON as a complete request body. `json` may be one already; otherwise a list becomes the rows and
 * any other value the columns of a body. NULL: out of memory. */
const char *cl_input_body(const struct cl_input *in, bool is_whole, const char *signature,
                          struct rt_arena *arena);
/* Converts the inputs to tensors with the names and types of the signature. *is_row: the JSON had
 * rows. */
enum rt_status cl_input_bind(struct cl_input *in, const struct slipway_signature *s,
                             struct rt_arena *arena, bool *is_row, struct rt_error *err);

#endif
