/*
 * The arguments of one command, read by tables: a row says the flag's name, kind and place in the
 * command's struct, and what `--help` prints about it. Flags are --name=value or --name value,
 * switches --name alone.
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
    CL_COUNT,  /* int64_t, at least `min` */
    CL_REAL,   /* double, at least `min` */
    CL_TEXTS,  /* struct cl_list: the flag may be given again */
};

struct cl_list {
    int n;
    const char *at[CL_MAX_LIST];
};

struct cl_flag {
    const char *name; /* "--server" */
    enum cl_flag_kind kind;
    size_t offset;
    const char *value, *help; /* "URL": how the value is called */
    int64_t min;
};

/* Rows, and the struct that they fill (which holds the defaults before). */
struct cl_flag_set {
    const struct cl_flag *flags;
    int n;
    void *base;
};

struct cl_usage {
    const char *command;  /* "predict" */
    const char *synopsis; /* what follows it */
    const char *about;    /* lines that end in \n */
    int min_words, max_words;
    const struct cl_flag_set *sets;
    int n_sets;
};

/* -1: go on, `words` holds what is no flag; else the process's exit status: help was printed, or
 * what is wrong was said. */
int cl_flags_parse(const struct cl_usage *u, int argc, const char *const *argv,
                   struct cl_list *words);

#endif
