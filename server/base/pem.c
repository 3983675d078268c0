#include "server/base/pem.h"

#include <stdbool.h>
#include <string.h>

static const char begin[] = "-----BEGIN ", end[] = "-----END ", dashes[] = "-----";

enum { MAX_LABEL = 64 };

/* A PEM block, which begins with the line "-----BEGIN LABEL-----". */
struct block {
    const char *label;
    int n_label;
    const char *body; /* the text after the label line */
    bool is_complete; /* whether `body` contains an "-----END" line */
};

/* Finds the next block at or after `at`. Returns false if there is none. */
static bool next_block(const char *at, struct block *out)
{
    while ((at = strstr(at, begin))) {
        at += sizeof begin - 1;
        const char *after = strstr(at, dashes);
        if (!after || after > at + MAX_LABEL || memchr(at, '\n', (size_t)(after - at)))
            continue;
        *out = (struct block){at, (int)(after - at), after + sizeof dashes - 1, false};
        out->is_complete = strstr(out->body, end) != NULL;
        return true;
    }
    return false;
}

/* Returns whether the block's label ends with `what`. For example, the label "RSA PRIVATE KEY" ends
 * with "PRIVATE KEY". */
static bool is_a(const struct block *b, const char *what)
{
    const size_t n = strlen(what);
    return (size_t)b->n_label >= n && memcmp(b->label + b->n_label - n, what, n) == 0;
}

/* Returns whether the key in the block is encrypted with a passphrase. PKCS #8 states this in the
 * label, and OpenSSL's traditional format states it in a header. */
static bool is_encrypted(const struct block *b)
{
    static const char label[] = "ENCRYPTED ", header[] = "Proc-Type: 4,ENCRYPTED";
    const char *line = b->body + strspn(b->body, "\r\n");
    return strncmp(b->label, label, sizeof label - 1) == 0 ||
           strncmp(line, header, sizeof header - 1) == 0;
}

enum rt_status srv_pem_check(const char *text, const char *what, const char *name,
                             struct rt_error *err)
{
    struct block first = {0}, b;

    for (const char *at = text; next_block(at, &b); at = b.body) {
        if (!first.label)
            first = b;
        if (!is_a(&b, what))
            continue;
        if (is_encrypted(&b))
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "%s has a passphrase, which a server cannot ask for: \"openssl pkey -in "
                           "FILE\" writes the key without it",
                           name);
        if (b.is_complete)
            return RT_OK;
    }
    if (first.label && is_a(&first, what))
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "%s is not the contents of a PEM file with a %s: its %.*s has no end", name,
                       what, first.n_label, first.label);
    if (first.label)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "%s is not the contents of a PEM file with a %s: it holds a %.*s", name,
                       what, first.n_label, first.label);
    return rt_fail(err, RT_INVALID_ARGUMENT,
                   "%s is not the contents of a PEM file with a %s: it has no line \"-----BEGIN "
                   "%s-----\"",
                   name, what, what);
}
