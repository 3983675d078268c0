/*
 * Parses the arguments of a command. Each row of a table describes a flag: its name, its kind, its
 * offset in the command's struct, and its `--help` text. A flag is written as --name=value or
 * --name value, and a switch as --name.
 */
#ifndef CL_FLAGS_H
#define CL_FLAGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CL_EXIT_OK = 0, CL_EXIT_FAILED = 1, CL_EXIT_USAGE = 2 };
enum { CL_MAX_LIST = 64 };

enum cl_flag_kind {
    CL_SWITCH, /* bool */
    CL_TEXT,   /* const char * */
    CL_COUNT,  /* an int64_t of at least `min` */
    CL_REAL,   /* a double of at least `min` */
    CL_TEXTS,  /* a struct cl_list with the values of a flag that may be repeated */
};

struct cl_list {
    int n;
    const char *at[CL_MAX_LIST];
};

struct cl_flag {
    const char *name; /* "--server" */
    enum cl_flag_kind kind;
    size_t offset;
    /* `value` is the name of the flag's value in `--help`, for example "URL". `help` is the flag's
     * help text. */
    const char *value, *help;
    int64_t min;
};

/* A table of flags, and the struct `base` that they fill. Before parsing, the struct contains the
 * defaults. */
struct cl_flag_set {
    const struct cl_flag *flags;
    int n;
    void *base;
};

struct cl_usage {
    const char *command;  /* "predict" */
    const char *synopsis; /* text that follows the command in its usage line */
    const char *about;    /* text of `--help`; each line ends in \n */
    int min_words, max_words;
    const struct cl_flag_set *sets;
    int n_sets;
};

/* Parses the arguments into the structs of u->sets, and adds to `words` the arguments that are not
 * flags. Returns -1 if the command should run. Otherwise prints the help or an error, and returns
 * the exit status. */
int cl_flags_parse(const struct cl_usage *u, int argc, const char *const *argv,
                   struct cl_list *words);

#endif
