#include "runtime/core/device.h"
#include "runtime/files/file_access.h"
#include "server/config/options.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "server/config/edit_distance.h"
#include "server/replay/golden.h"
#include "server/base/number.h"
#include "server/replay/warmup.h"

enum kind {
    BOOLEAN,
    SWITCH, /* a boolean, written as on or off */
    MAYBE,  /* a boolean that may be unset, stored as enum srv_maybe */
    INTEGER,
    BYTES,   /* an integer with an optional suffix K, M or G */
    SECONDS, /* a number of seconds that may have a fraction; stored in milliseconds */
    TEXT,
    FLOAT, /* a number; non-negative and finite if the flag is Slipway's */
};

enum meaning {
    OURS,        /* a flag that only Slipway has */
    TFS,         /* a flag of TensorFlow Serving with the same meaning */
    TFS_IGNORED, /* a flag of TensorFlow Serving without an effect */
};

struct row {
    const char *name;
    enum kind kind;
    enum meaning meaning;
    /* offset of the value in struct srv_options; unused for TFS_IGNORED */
    size_t offset;
    /* default value of tensorflow_model_server */
    const char *as_tensorflow;
    /* default value of `slipway serve`, or NULL if as_tensorflow applies */
    const char *own;
    /* range of the value of an INTEGER, BYTES or SECONDS flag, or of a FLOAT flag of Slipway; for
     * SECONDS, in milliseconds */
    int64_t min, max;
    const char *help;
};

#define AT(field) offsetof(struct srv_options, field)
#define ANY       INT64_MIN, INT64_MAX
#define COUNT     0, INT32_MAX
#define SIZE      0, INT64_MAX

static const struct row rows[] = {
#include "server/config/flags.inc"
};

enum { N_ROWS = sizeof rows / sizeof rows[0] };
enum { MAX_EDITS = 2 }; /* in the name of a flag, for a hint to the flag that was meant */

static const char *default_of(const struct row *row, bool as_tensorflow)
{
    return as_tensorflow || !row->own ? row->as_tensorflow : row->own;
}

static bool is_boolean(const struct row *row)
{
    return row->kind == BOOLEAN || row->kind == MAYBE;
}

static bool has_field(const struct row *row)
{
    return (row->meaning == OURS || row->meaning == TFS) && row->offset != SIZE_MAX;
}

static bool parse_bytes(const char *text, int64_t *out)
{
    size_t n = strlen(text);
    int shift = 0;
    if (n > 1 && strchr("KMG", text[n - 1]))
        shift = text[--n] == 'K' ? 10 : text[n] == 'M' ? 20 : 30;
    int64_t v;
    if (!srv_parse_int64(text, n, &v) || v > INT64_MAX >> shift || v < INT64_MIN >> shift)
        return false;
    *out = v * (INT64_C(1) << shift);
    return true;
}

/* Parses a number as TensorFlow does: with sscanf, which also accepts leading white space, a sign,
 * hexadecimal digits, inf and nan, and without a rest. A flag of Slipway must be finite, not
 * negative and in the flag's range. */
static bool parse_float(const struct row *row, const char *text, double *out)
{
    char rest;

    return sscanf(text, "%lf%c", out, &rest) == 1 &&
           (row->meaning != OURS ||
            (isfinite(*out) && *out >= 0 && (row->max == INT64_MAX || *out <= (double)row->max)));
}

/* Stores the value of a flag in the options. `text` is NULL if the flag has no value, which only
 * booleans permit. Returns false if the text does not match the flag's kind and range. */
static bool set_value(struct srv_options *o, const struct row *row, const char *text)
{
    char *field = (char *)o + (has_field(row) ? row->offset : 0);
    if (!text && !is_boolean(row))
        return false;
    int64_t number = 0;
    bool flag = !text;
    switch (row->kind) {
    case BOOLEAN:
        if (text && strcmp(text, "true") != 0 && strcmp(text, "false") != 0)
            return false;
        flag = !text || strcmp(text, "true") == 0;
        if (has_field(row))
            memcpy(field, &flag, sizeof flag);
        return true;
    case SWITCH:
        if (strcmp(text, "on") != 0 && strcmp(text, "off") != 0)
            return false;
        flag = strcmp(text, "on") == 0;
        memcpy(field, &flag, sizeof flag);
        return true;
    case MAYBE: {
        enum srv_maybe said = !text || strcmp(text, "true") == 0 ? SRV_YES
                              : strcmp(text, "false") == 0       ? SRV_NO
                                                                 : SRV_UNSET;
        if (said == SRV_UNSET && *text)
            return false;
        memcpy(field, &said, sizeof said);
        return true;
    }
    case TEXT:
        if (has_field(row))
            memcpy(field, &text, sizeof text);
        return true;
    case FLOAT: {
        double real = 0;
        if (!parse_float(row, text, &real))
            return false;
        if (has_field(row))
            memcpy(field, &real, sizeof real);
        return true;
    }
    case INTEGER:
        /* TensorFlow Serving's scanf skips leading white space before an integer. */
        text += strspn(text, " \t\n\v\f\r");
        if (!srv_parse_int64(text, strlen(text), &number))
            return false;
        break;
    case BYTES:
        if (!parse_bytes(text, &number))
            return false;
        break;
    case SECONDS:
        if (!srv_parse_seconds(text, &number))
            return false;
        break;
    }
    if (number < row->min || number > row->max)
        return false;
    if (has_field(row))
        memcpy(field, &number, sizeof number);
    return true;
}

static const char *kind_name(enum kind kind)
{
    static const char *const names[] = {"bool",  "on|off",  "bool",   "int",
                                        "bytes", "seconds", "string", "float"};
    return names[kind];
}

static const char *const titles[] = {"Of Slipway", "Of TensorFlow Serving",
                                     "Of TensorFlow Serving, accepted and without effect"};

void srv_options_help(FILE *out, bool as_tensorflow)
{
    fprintf(
        out, "usage: %s\nFlags: (--name=value%s; a boolean: --name, --name=true, --name=false)\n",
        as_tensorflow ? "tensorflow_model_server [flags]"
                      : "slipway serve --models=DIR [flags]\n"
                        "       slipway serve [--model_name=NAME] --model_base_path=DIR [flags]\n"
                        "       slipway serve --model_config_file=FILE [flags]",
        as_tensorflow ? "" : " or --name value");
    for (int pass = 0; pass < 3; pass++) {
        /* the flags of TensorFlow Serving come first */
        enum meaning meaning = pass == 0 ? TFS : pass == 1 ? OURS : (enum meaning)pass;
        fprintf(out, "%s:\n", titles[meaning]);
        for (const struct row *r = rows; r < rows + N_ROWS; r++) {
            if (r->meaning != meaning)
                continue;
            char name[96];
            const char *def = default_of(r, as_tensorflow);
            snprintf(name, sizeof name, r->kind == TEXT ? "--%s=\"%s\"" : "--%s=%s", r->name, def);
            fprintf(out, "\t%-33s\t%s\t%s\n", name, kind_name(r->kind), r->help);
        }
    }
}

void srv_options_markdown(FILE *out)
{
    fprintf(
        out,
        "# Flags of `slipway serve`\n\nMade by `slipway serve --help=markdown`. In brackets: the "
        "default when called as `tensorflow_model_server`.\n");
    for (enum meaning meaning = OURS; meaning <= TFS_IGNORED; meaning++) {
        fprintf(out, "\n## %s\n\n| flag | default | meaning |\n|---|---|---|\n", titles[meaning]);
        for (const struct row *r = rows; r < rows + N_ROWS; r++) {
            const char *own = default_of(r, false), *theirs = default_of(r, true);
            if (r->meaning != meaning)
                continue;
            fprintf(out, "| `--%s` | %s", r->name, own);
            if (strcmp(own, theirs) != 0)
                fprintf(out, " (%s)", *theirs ? theirs : "empty");
            fprintf(out, " | %s |\n", r->help);
        }
    }
}

static const struct row *find_row(const char *name, size_t n)
{
    for (const struct row *r = rows; r < rows + N_ROWS; r++)
        if (strlen(r->name) == n && memcmp(r->name, name, n) == 0)
            return r;
    return NULL;
}

/* Prints the flag whose name is nearest to that of the unknown argument, if it is near enough to be
 * a typing error and no other flag is as near. A name of up to two bytes has no near flag. */
static void print_near_flag(FILE *out, const char *arg)
{
    const size_t dashes = strspn(arg, "-");
    const size_t n = strcspn(arg + dashes, "=");
    const struct row *nearest = NULL;
    int least = MAX_EDITS + 1;

    if (n <= MAX_EDITS)
        return;
    for (const struct row *r = rows; r < rows + N_ROWS; r++) {
        const int distance = srv_edit_distance(arg + dashes, n, r->name);
        if (distance <= least)
            nearest = distance < least ? r : NULL;
        if (distance < least)
            least = distance;
    }
    if (nearest && dashes)
        fprintf(out, "did you mean --%s?\n", nearest->name);
}

static void print_version(FILE *out)
{
    fprintf(out, "TensorFlow ModelServer: slipway-%s\nTensorFlow Library: none, slipway-%s\n",
            SLIPWAY_VERSION, SLIPWAY_VERSION);
}

/* Prints the usage. tensorflow_model_server prints all flags. `slipway serve` prints only one line,
 * so that the error message before it stays visible. */
static void print_usage(FILE *out, bool as_tensorflow)
{
    if (as_tensorflow)
        srv_options_help(out, true);
    else
        fprintf(out, "slipway serve --help lists the flags and what they take\n");
}

static void print_bad_value(FILE *out, const char *value, const char *name)
{
    fprintf(out, "Couldn't interpret value %s for flag %s.\n", value, name);
}

/* Prints the permitted range of a numeric flag, in the unit in which its value is given. */
static void print_range(FILE *out, const struct row *row)
{
    const double unit = row->kind == SECONDS ? 1000 : 1;

    if (row->min != INT64_MIN)
        fprintf(out, row->max == INT64_MAX ? " of at least %.15g" : " from %.15g",
                (double)row->min / unit);
    if (row->max != INT64_MAX)
        fprintf(out, row->min == INT64_MIN ? " of at most %.15g" : " to %.15g",
                (double)row->max / unit);
    fprintf(out, "\n");
}

static void print_accepted_values(FILE *out, const struct row *row)
{
    static const char *const takes[] = {
        [BOOLEAN] = "true or false",
        [SWITCH] = "on or off",
        [MAYBE] = "true or false",
        [INTEGER] = "a whole number",
        [BYTES] = "a number of bytes, as 4096, 16K, 8M or 1G,",
        [SECONDS] = "a number of seconds",
        [TEXT] = "a text",
        [FLOAT] = "a number",
    };
    fprintf(out, "--%s takes %s", row->name, takes[row->kind]);
    if (row->kind == INTEGER || row->kind == BYTES || row->kind == SECONDS ||
        (row->kind == FLOAT && row->meaning == OURS))
        print_range(out, row);
    else
        fprintf(out, "\n");
}

static bool is_default(const struct row *row, const char *text, bool as_tensorflow)
{
    return strcmp(text, default_of(row, as_tensorflow)) == 0;
}

enum taken { TAKEN, NO_FLAG, BAD };

/* Stores the value of a flag, or reports the error. `text` is NULL if the flag has no value. */
static enum taken take_value(struct srv_options *o, const struct row *row, const char *text,
                             FILE *out)
{
    if (!set_value(o, row, text)) {
        /* tensorflow_model_server prints a "=" before the invalid value of a boolean */
        bool equals = o->as_tensorflow && is_boolean(row);
        char shown[512];
        snprintf(shown, sizeof shown, "%s%s", equals ? "=" : "", text ? text : "(none)");
        print_bad_value(out, shown, row->name);
        if (!o->as_tensorflow)
            print_accepted_values(out, row);
        return BAD;
    }
    o->given[row - rows] = text ? text : "true";
    return TAKEN;
}

/* Finds a boolean flag whose name is a prefix of the argument. tensorflow_model_server then reports
 * the rest of the argument as an invalid value. It does not report an unknown flag. */
static const struct row *boolean_before(const char *arg)
{
    for (const struct row *r = rows; r < rows + N_ROWS; r++)
        if (is_boolean(r) && r->meaning != OURS && strncmp(arg + 2, r->name, strlen(r->name)) == 0)
            return r;
    return NULL;
}

static enum taken take_theirs(struct srv_options *o, const char *arg, FILE *out)
{
    if (strncmp(arg, "--", 2) != 0)
        return NO_FLAG;
    const char *equals = strchr(arg, '=');
    const struct row *row =
        find_row(arg + 2, equals ? (size_t)(equals - arg - 2) : strlen(arg + 2));
    if (row && (equals || is_boolean(row)))
        return take_value(o, row, equals ? equals + 1 : NULL, out);
    row = row ? NULL : boolean_before(arg);
    if (!row)
        return NO_FLAG;
    print_bad_value(out, arg + 2 + strlen(row->name), row->name);
    return BAD;
}

static enum srv_parse parse_theirs(struct srv_options *o, int argc, const char *const *argv,
                                   FILE *out)
{
    const char *left_over = NULL;
    bool bad = false, rest = false;
    for (int i = 1; i < argc; i++) {
        rest = rest || strcmp(argv[i], "--") == 0;
        enum taken t = rest ? NO_FLAG : take_theirs(o, argv[i], out);
        bad = bad || t == BAD;
        if (t == NO_FLAG && !left_over)
            left_over = argv[i];
    }
    if (bad || (left_over && strcmp(left_over, "--help") == 0)) {
        srv_options_help(out, true);
        return SRV_PARSE_EXIT_USAGE;
    }
    if (left_over) {
        fprintf(out, "unknown argument: %s\n", left_over);
        srv_options_help(out, true);
    }
    return left_over && o->strict_flags ? SRV_PARSE_EXIT_USAGE : SRV_PARSE_RUN;
}

static enum srv_parse parse_own(struct srv_options *o, int argc, const char *const *argv, FILE *out)
{
    const char *unknown = NULL;
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i], *equals = strchr(arg, '=');
        if (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0) {
            srv_options_help(out, false);
            return SRV_PARSE_EXIT_0;
        }
        if (strcmp(arg, "--help=markdown") == 0) {
            srv_options_markdown(out);
            return SRV_PARSE_EXIT_0;
        }
        if (strcmp(arg, "--") == 0 && i + 1 == argc)
            break;
        const struct row *row =
            strncmp(arg, "--", 2) == 0
                ? find_row(arg + 2, equals ? (size_t)(equals - arg - 2) : strlen(arg + 2))
                : NULL;
        if (!row) {
            unknown = unknown ? unknown : arg;
            continue;
        }
        const char *text = equals ? equals + 1 : NULL;
        if (!text && !is_boolean(row) && i + 1 < argc)
            text = argv[++i];
        if (take_value(o, row, text, out) == BAD) {
            print_usage(out, false);
            return SRV_PARSE_EXIT_USAGE;
        }
    }
    if (!unknown)
        return SRV_PARSE_RUN;
    fprintf(out,
            "unknown argument: %s: only flags are taken, and slipway serve --help lists them\n",
            unknown);
    print_near_flag(out, unknown);
    return o->strict_flags ? SRV_PARSE_EXIT_USAGE : SRV_PARSE_RUN;
}

/* Checks the flags that are lists of directories. */
static bool check_directories(const struct srv_options *o, FILE *out)
{
    struct rt_error err = {0};

    if (!rt_file_access_check_list("model_read_directories", o->model_read_directories, &err) &&
        !rt_file_access_check_list("model_write_directories", o->model_write_directories, &err))
        return true;
    fprintf(out, "%s\n", rt_error_text(&err));
    return false;
}

/* Checks the flags that accept only one of two words. */
static bool check_words(const struct srv_options *o, FILE *out)
{
    const struct {
        const char *name, *value, *a, *b;
    } words[] = {
        {"log_format", o->log_format, "text", "json"},
        {"precision", o->precision, "float32", "bf16"},
        {"gpu_precision", o->gpu_precision, "tf32", "float32"},
        {"gpu_on_fault", o->gpu_on_fault, "exit", "stop"},
        {"version_transition", o->version_transition, "availability_preserving",
         "resource_preserving"},
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(words[i].value, words[i].a) != 0 && strcmp(words[i].value, words[i].b) != 0) {
            print_bad_value(out, words[i].value, words[i].name);
            if (!o->as_tensorflow)
                fprintf(out, "--%s takes %s or %s\n", words[i].name, words[i].a, words[i].b);
            return false;
        }
    return true;
}

enum srv_parse srv_options_parse(struct srv_options *o, bool as_tensorflow, int argc,
                                 const char *const *argv, FILE *out)
{
    _Static_assert((int)N_ROWS <= (int)SRV_MAX_FLAGS, "given[] has a place for each flag");
    memset(o, 0, sizeof *o);
    o->as_tensorflow = as_tensorflow;
    for (const struct row *r = rows; r < rows + N_ROWS; r++)
        if (has_field(r))
            set_value(o, r, default_of(r, as_tensorflow));
    enum srv_parse parsed =
        as_tensorflow ? parse_theirs(o, argc, argv, out) : parse_own(o, argc, argv, out);
    if (parsed != SRV_PARSE_RUN)
        return parsed;
    const char *version = o->given[find_row("version", 7) - rows];
    if (version && strcmp(version, "true") == 0) {
        print_version(out);
        return SRV_PARSE_EXIT_0;
    }
    if (!check_words(o, out) || !check_directories(o, out)) {
        print_usage(out, as_tensorflow);
        return SRV_PARSE_EXIT_USAGE;
    }
    return SRV_PARSE_RUN;
}

bool srv_options_is_given(const struct srv_options *o, const char *name)
{
    const struct row *row = find_row(name, strlen(name));
    return row && o->given[row - rows];
}

bool srv_options_next_note(const struct srv_options *o, int *i, const char **name,
                           const char **reason)
{
    for (; *i < N_ROWS; ++*i) {
        const struct row *row = &rows[*i];
        const char *text = o->given[*i];
        if (row->meaning != TFS_IGNORED || !text || is_default(row, text, o->as_tensorflow))
            continue;
        *name = row->name;
        *reason = row->help;
        ++*i;
        return true;
    }
    return false;
}
