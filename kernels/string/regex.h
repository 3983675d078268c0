/*
 * Regular expressions by RE2, the library that TensorFlow uses, in UTF-8 and with RE2's default
 * options. regex.cc is the server's only C++ file. Its interface has only C types, and it catches
 * all exceptions.
 *
 * The time of a match is proportional to the length of the text. It is also proportional to the
 * size of the program if a pattern makes RE2 fall back from its DFA to its NFA. A match cannot be
 * interrupted, so callers limit the product of text length and program size to KN_REGEX_MAX_WORK.
 * The NFA takes about 12 ns for each byte and instruction, so a match takes at most 1.6 s. The DFA,
 * which almost all patterns use, takes 1 to 2 ns for each byte.
 *
 * Owner: callers that request the same pattern at the same time share one expression. kn_regex_drop
 * drops a reference. Threads: any; an expression may be used by several threads.
 */
#ifndef KN_STRING_REGEX_H
#define KN_STRING_REGEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct kn_regex;

enum {
    KN_REGEX_GROUPS = 10, /* number of groups that a rewrite can contain: \0 to \9 */
    /* Maximum length of a pattern in bytes. Longer patterns exceed RE2's memory limit, unless they
     * are repetitive. */
    KN_REGEX_MAX_PATTERN = 1 << 20,
    /* Maximum number of Unicode classes in a pattern. Each has up to 600 ranges, for which RE2's
     * parser takes 31 KB before any limit. */
    KN_REGEX_MAX_CLASSES = 1000,
    /* RE2's default limit for the memory of an expression, which TensorFlow uses as well */
    KN_REGEX_MEMORY = 8 << 20,
    /* Limit while KN_REGEX_MANY other expressions are in use, unless the program needs more. No
     * account counts the memory of the expressions that a model contains. */
    KN_REGEX_LESS_MEMORY = 1 << 20,
    KN_REGEX_MANY = 64,
};
#define KN_REGEX_MAX_WORK (INT64_C(1) << 27)

struct kn_group {
    const char *p;
    size_t n;
};

/* Returns the expression of a pattern. If RE2 refuses the pattern or memory runs out, returns NULL
 * and writes RE2's reason to `why`, which has `size` bytes. */
struct kn_regex *kn_regex_get(const char *pattern, size_t n, char *why, size_t size);
void kn_regex_drop(struct kn_regex *re); /* NULL is fine */
/* Returns the number of instructions of the program, at least 1. */
int64_t kn_regex_size(const struct kn_regex *re);
int kn_regex_groups(const struct kn_regex *re);
/* Sets *is_match to whether the whole text matches. Returns false if memory runs out. */
bool kn_regex_matches(const struct kn_regex *re, const char *text, size_t n, bool *is_match);
/* Finds the first match at or after `from`. Sets group[k] to the part of the text that group k
 * matched, for k < n_groups. Group 0 is the complete match. Sets the `p` of a group that matched
 * nothing to NULL. If there is no match, sets the `p` of all groups to NULL. Returns false if
 * memory runs out. */
bool kn_regex_find(const struct kn_regex *re, const char *text, size_t n, size_t from,
                   struct kn_group *group, int n_groups);

#ifdef __cplusplus
}
#endif

#endif
