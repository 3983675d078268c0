#include "clients/cli/flags.h"

#include "runtime/base/print.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES_WIDTH = 24 };

static void print_help(const struct cl_usage *u, FILE *out)
{
    fprintf(out, "usage: slipway %s %s\n%s", u->command, u->synopsis, u->about);
    for (int s = 0; s < u->n_sets; s++)
        for (int i = 0; i < u->sets[s].n; i++) {
            const struct cl_flag *f = &u->sets[s].flags[i];
            char name[64];
            snprintf(name, sizeof name, "%s%s%s", f->name, f->value ? " " : "",
                     f->value ? f->value : "");
            fprintf(out, "  %-*s %s\n", NAMES_WIDTH, name, f->help);
        }
    fprintf(out, "  --help, --version\n");
}

/* Sets a flag to the value in `text`. Returns false if the value is invalid. */
static bool set_value(const struct cl_flag *f, void *base, const char *text)
{
    void *at = (char *)base + f->offset;
    char *end;
    errno = 0;
    switch (f->kind) {
    case CL_TEXT:
        *(const char **)at = text;
        return true;
    case CL_TEXTS: {
        struct cl_list *list = at;
        if (list->n == CL_MAX_LIST)
            return false;
        list->at[list->n++] = text;
        return true;
    }
    case CL_COUNT: {
        long long v = strtoll(text, &end, 10);
        *(int64_t *)at = v;
        return *text && !*end && !errno && v >= f->min;
    }
    case CL_REAL: {
        double v = strtod(text, &end);
        *(double *)at = v;
        return *text && !*end && v >= (double)f->min && v < 1e18;
    }
    case CL_SWITCH:
        break;
    }
    return false;
}

/* Returns the flag that an argument names. *text receives the text after "=", or NULL if the
 * argument has no "=". */
static const struct cl_flag *find(const struct cl_usage *u, const char *arg, void **base,
                                  const char **text)
{
    for (int s = 0; s < u->n_sets; s++)
        for (int i = 0; i < u->sets[s].n; i++) {
            const struct cl_flag *f = &u->sets[s].flags[i];
            size_t n = strlen(f->name);
            if (strncmp(arg, f->name, n) != 0 || (arg[n] && arg[n] != '='))
                continue;
            *base = u->sets[s].base;
            *text = arg[n] ? arg + n + 1 : NULL;
            return f;
        }
    return NULL;
}

static int end_usage(const struct cl_usage *u)
{
    rt_print(stderr, "usage: slipway %s %s\n", u->command, u->synopsis);
    return CL_EXIT_USAGE;
}

static int no_such_flag(const struct cl_usage *u, const char *arg)
{
    rt_print(stderr, "slipway %s: unknown flag %s; there are", u->command, arg);
    for (int s = 0; s < u->n_sets; s++)
        for (int i = 0; i < u->sets[s].n; i++)
            rt_print(stderr, " %s,", u->sets[s].flags[i].name);
    rt_print(stderr, " --help\n");
    return end_usage(u);
}

static int wrong_value(const struct cl_usage *u, const struct cl_flag *f, const char *text)
{
    rt_print(stderr, "slipway %s: %s cannot be %s: ", u->command, f->name, text);
    switch (f->kind) {
    case CL_COUNT:
    case CL_REAL:
        rt_print(stderr, "it is a %snumber of at least %lld\n", f->kind == CL_COUNT ? "whole " : "",
                 (long long)f->min);
        break;
    case CL_SWITCH:
        rt_print(stderr, "it is true or false\n");
        break;
    case CL_TEXT:
    case CL_TEXTS:
        rt_print(stderr, "it is given %d times already, which is the most\n", CL_MAX_LIST);
        break;
    }
    return end_usage(u);
}

int cl_flags_parse(const struct cl_usage *u, int argc, const char *const *argv,
                   struct cl_list *words)
{
    bool only_words = false;
    *words = (struct cl_list){0};
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i], *text;
        void *base;
        bool is_number = arg[0] == '-' && arg[1] >= '0' && arg[1] <= '9';
        if (only_words || arg[0] != '-' || !arg[1] || is_number) {
            if (words->n == u->max_words) {
                rt_print(stderr, "slipway %s: cannot use argument %s: it takes %s\n", u->command,
                         arg, u->synopsis);
                return end_usage(u);
            }
            words->at[words->n++] = arg;
            continue;
        }
        if (strcmp(arg, "--") == 0) {
            only_words = true;
            continue;
        }
        if (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0) {
            print_help(u, stdout);
            return CL_EXIT_OK;
        }
        if (strcmp(arg, "--version") == 0 && argc == 2) {
            rt_print(stdout, "slipway %s\n", SLIPWAY_VERSION);
            return CL_EXIT_OK;
        }
        const struct cl_flag *f = find(u, arg, &base, &text);
        if (!f)
            return no_such_flag(u, arg);
        if (f->kind == CL_SWITCH) {
            if (text && strcmp(text, "true") != 0 && strcmp(text, "false") != 0)
                return wrong_value(u, f, text);
            *(bool *)((char *)base + f->offset) = !text || strcmp(text, "true") == 0;
            continue;
        }
        if (!text && i + 1 == argc) {
            rt_print(stderr, "slipway %s: a value is wanted behind %s: %s\n", u->command, arg,
                     f->value);
            return end_usage(u);
        }
        if (!text)
            text = argv[++i];
        if (!set_value(f, base, text))
            return wrong_value(u, f, text);
    }
    if (words->n < u->min_words) {
        rt_print(stderr, "slipway %s: no %.*s is given\n", u->command,
                 (int)strcspn(u->synopsis, " "), u->synopsis);
        return end_usage(u);
    }
    return -1;
}
