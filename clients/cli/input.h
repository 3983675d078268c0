/*
 * What a user gives as inputs, as one of two things: JSON text for the server to judge, or tensors
 * for a signature. Threads: pure, but for reading files.
 */
#ifndef CL_INPUT_H
#define CL_INPUT_H

#include "clients/cli/flags.h"
#include "clients/cli/remote.h"

struct cl_input {
    const char *json; /* NULL: tensors */
    int n;
    struct slipway_tensor *tensors; /* named once cl_input_bind was called */
};

/*
 * `words`: files, "-" or JSON itself; `named`: ALIAS=FILE. By what they hold: .npy and .npz files
 * are tensors, JSON comes from files called .json, from standard input or as the word itself, and
 * any other file (all of them with `is_raw`) is one string of a tensor of so many strings.
 */
enum rt_status cl_input_read(const struct cl_list *words, const struct cl_list *named, bool is_raw,
                             struct rt_arena *arena, struct cl_input *out, struct rt_error *err);

/* JSON as a whole request body, which it may be already: a bare list is rows, another object
 * columns. NULL: no memory. */
const char *cl_input_body(const struct cl_input *in, bool is_whole, const char *signature,
                          struct rt_arena *arena);
/* Makes tensors of it, named and of the signature's types. *is_row: JSON gave rows. */
enum rt_status cl_input_bind(struct cl_input *in, const struct slipway_signature *s,
                             struct rt_arena *arena, bool *is_row, struct rt_error *err);

#endif
