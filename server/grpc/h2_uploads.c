#include "server/grpc/h2_uploads.h"

#include <stdlib.h>

#include "runtime/base/siphash.h"

enum {
    FIRST_CAPACITY = 16,
    PREFIX_BYTES = 5, /* a flag, and the length of the message in network byte order */
};

/* Returns the first slot of the search for a stream. The hash has a secret key, so that a peer
 * cannot choose streams that collide. */
static uint32_t first_slot(const struct srv_h2_uploads *u, uint32_t stream)
{
    return (uint32_t)rt_siphash(rt_siphash_key(), &stream, sizeof stream) & (u->capacity - 1);
}

/* Returns the slot of the stream. If the table does not contain the stream, returns the free slot
 * for it. At least one slot is free. */
static uint32_t slot_of(const struct srv_h2_uploads *u, uint32_t stream)
{
    uint32_t i = first_slot(u, stream);

    while (u->slots[i].stream && u->slots[i].stream != stream)
        i = (i + 1) & (u->capacity - 1);
    return i;
}

void srv_h2_uploads_clear(struct srv_h2_uploads *u)
{
    free(u->slots);
    *u = (struct srv_h2_uploads){.slots = NULL};
}

static int grow(struct srv_h2_uploads *u)
{
    struct srv_h2_uploads larger = {.capacity = u->capacity ? 2 * u->capacity : FIRST_CAPACITY};

    larger.slots = calloc(larger.capacity, sizeof *larger.slots);
    if (!larger.slots)
        return 0;
    for (uint32_t i = 0; i < u->capacity; i++)
        if (u->slots[i].stream)
            larger.slots[slot_of(&larger, u->slots[i].stream)] = u->slots[i];
    free(u->slots);
    u->slots = larger.slots;
    u->capacity = larger.capacity;
    return 1;
}

void srv_h2_uploads_begin(struct srv_h2_uploads *u, uint32_t stream)
{
    if (!stream || u->n >= SRV_H2_MOST_UPLOADS || (2 * u->n >= u->capacity && !grow(u)))
        return;
    struct srv_h2_upload *at = &u->slots[slot_of(u, stream)];
    if (at->stream)
        return;
    *at = (struct srv_h2_upload){.stream = stream};
    u->n++;
}

struct srv_h2_upload *srv_h2_uploads_find(const struct srv_h2_uploads *u, uint32_t stream)
{
    if (!u->n)
        return NULL;
    struct srv_h2_upload *at = &u->slots[slot_of(u, stream)];
    return at->stream ? at : NULL;
}

/* Parses the next n bytes of a body. Returns the number of messages that are complete with them,
 * and stores in *n_rest the number of bytes after the last of these messages. */
static uint32_t parse(struct srv_h2_upload *at, const uint8_t *p, size_t n, size_t *n_rest)
{
    uint32_t n_messages = 0;

    *n_rest = n;
    for (size_t i = 0; i < n;) {
        if (at->n_prefix < PREFIX_BYTES) {
            at->left = at->n_prefix++ ? at->left << 8 | p[i] : 0;
            i++;
        } else {
            size_t k = at->left < n - i ? at->left : n - i;
            at->left -= (uint32_t)k;
            i += k;
        }
        if (at->n_prefix < PREFIX_BYTES || at->left)
            continue;
        at->n_prefix = 0;
        n_messages++;
        *n_rest = n - i;
    }
    return n_messages;
}

bool srv_h2_uploads_add(struct srv_h2_uploads *u, struct srv_h2_upload *at, const uint8_t *p,
                        size_t n, uint64_t memory)
{
    size_t n_rest;
    const uint32_t n_messages = parse(at, p, n, &n_rest);

    u->held += memory;
    at->arrived += n;
    if (!n_messages) {
        at->incomplete += memory;
        return false;
    }
    /* If the bytes end in a further message, that message retains the memory of all of them. */
    at->after_mark += at->incomplete + (n_rest ? 0 : memory);
    at->incomplete = n_rest ? memory : 0;
    at->n_after_mark += n_messages - !at->has_message;
    at->has_message = true;
    at->end = at->arrived - n_rest;
    return true;
}

struct srv_h2_taken srv_h2_uploads_take(struct srv_h2_uploads *u, struct srv_h2_upload *at)
{
    struct srv_h2_taken taken = {.n = 0};

    /* In the second round, the mark is the end of the last complete message. */
    for (int i = 0; i < 2 && at->granted >= at->mark; i++) {
        taken.bytes += at->before_mark;
        taken.n += at->n_before_mark;
        at->before_mark = at->after_mark;
        at->n_before_mark = at->n_after_mark;
        at->mark = at->end;
        at->after_mark = 0;
        at->n_after_mark = 0;
    }
    u->held -= taken.bytes;
    return taken;
}

/* Frees a slot of the hash table. Moves later entries into the gap if linear probing would no
 * longer find them. */
static void free_slot(struct srv_h2_uploads *u, uint32_t hole)
{
    const uint32_t mask = u->capacity - 1;

    for (uint32_t i = (hole + 1) & mask; u->slots[i].stream; i = (i + 1) & mask) {
        uint32_t first = first_slot(u, u->slots[i].stream);
        if (((i - first) & mask) < ((i - hole) & mask))
            continue;
        u->slots[hole] = u->slots[i];
        hole = i;
    }
    u->slots[hole] = (struct srv_h2_upload){.stream = 0};
}

uint64_t srv_h2_uploads_end(struct srv_h2_uploads *u, uint32_t stream)
{
    const struct srv_h2_upload *at = srv_h2_uploads_find(u, stream);

    if (!at)
        return 0;
    const uint64_t bytes = at->before_mark + at->after_mark + at->incomplete;
    free_slot(u, slot_of(u, stream));
    u->n--;
    u->held -= bytes;
    return bytes;
}
