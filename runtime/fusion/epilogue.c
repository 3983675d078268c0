#include "runtime/fusion/epilogue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/arena.h"

#define RESIDUAL_FIRST "residual_first"

static const char *const words[RT_EPILOGUE_N_IN] = {
#define X(id, word) #word,
    RT_EPILOGUE_OPERANDS(X)
#undef X
};

static const char *text_of(const struct rt_node *n)
{
    for (int i = 0; i < n->n_extra; i++)
        if (strcmp(n->extra[i].name, RT_EPILOGUE) == 0)
            return n->extra[i].value.v.s;
    return "";
}

static bool word_is(const char *s, size_t len, const char *word)
{
    return strlen(word) == len && memcmp(s, word, len) == 0;
}

/* Returns the enum rt_epilogue_operand for the word, or RT_EPILOGUE_N_IN if the word names no
 * operand. Sets *first to whether the word means that the residual is the first operand of its
 * addition. */
static int operand_of(const char *s, size_t len, bool *first)
{
    int k = 0;

    *first = word_is(s, len, RESIDUAL_FIRST);
    while (k < RT_EPILOGUE_N_IN && !word_is(s, len, words[k]))
        k++;
    return *first ? RT_EPILOGUE_RESIDUAL : k;
}

static enum rt_activation activation_of(const char *s, size_t len)
{
    int k = 1;

    while (k < RT_N_ACTS && !word_is(s, len, rt_activation_word((enum rt_activation)k)))
        k++;
    return k < RT_N_ACTS ? (enum rt_activation)k : RT_ACT_NONE;
}

enum rt_status rt_epilogue_read(const struct rt_node *n, struct rt_epilogue *e,
                                struct rt_error *err)
{
    int input = n->schema->n_in;

    memset(e, 0, sizeof *e);
    for (const char *s = text_of(n); *s;) {
        const size_t all = strcspn(s, " "), len = strcspn(s, " =");
        bool first;
        const int k = operand_of(s, len, &first);
        if (k < RT_EPILOGUE_N_IN) {
            e->in[k] = input++;
            e->residual_first = e->residual_first || first;
        } else {
            e->act = activation_of(s, len);
        }
        if ((k == RT_EPILOGUE_N_IN && !e->act) || input > n->n_in)
            return rt_fail(err, RT_INTERNAL, "%s: '%.*s' is no step of a tail", n->name, (int)all,
                           s);
        if (len < all) {
            e->has_alpha = true;
            e->alpha = strtof(s + len + 1, NULL);
        }
        s += all + (s[all] == ' ');
    }
    return RT_OK;
}

const char *rt_epilogue_text(const struct rt_epilogue *e, struct rt_arena *arena)
{
    char text[128] = "";
    size_t n = 0;

    for (int k = 0; k < RT_EPILOGUE_N_IN; k++) {
        const bool first = k == RT_EPILOGUE_RESIDUAL && e->residual_first;
        if (e->in[k])
            n += (size_t)snprintf(text + n, sizeof text - n, " %s",
                                  first ? RESIDUAL_FIRST : words[k]);
    }
    if (e->act)
        n += (size_t)snprintf(text + n, sizeof text - n, " %s", rt_activation_word(e->act));
    if (e->act && e->has_alpha)
        n += (size_t)snprintf(text + n, sizeof text - n, "=%a", (double)e->alpha);
    return n && n < sizeof text ? rt_arena_printf(arena, "%s", text + 1) : NULL;
}
