/*
 * Regions of POSIX shared memory that clients have registered. Regions are read and written by
 * pread and pwrite and never mapped. If a client shrinks the memory object, the next access fails
 * with an error. An access to mapped memory would raise SIGBUS. The size of the object is checked
 * at each use.
 *
 * Owner: the server. The total size of all regions is limited. Each region keeps a descriptor, so
 * the number of regions is limited by rt_file_most_kept too.
 * Threads: any; the list has a lock, which is not held while a region is read or written.
 */
#ifndef SRV_SHARED_MEMORY_H
#define SRV_SHARED_MEMORY_H

#include <stdint.h>

#include "runtime/base/arena.h"
#include "runtime/base/span.h"
#include "runtime/base/status.h"

struct srv_shared_memory;

enum { SRV_MAX_REGIONS = 1024 };

struct srv_region_info {
    const char *name, *key;
    uint64_t offset, bytes;
};

/* `limit` is the maximum total size of the regions in bytes. Returns NULL if memory runs out. */
struct srv_shared_memory *srv_shared_memory_new(uint64_t limit);
void srv_shared_memory_free(struct srv_shared_memory *m); /* `m` may be NULL */

/* Registers the `bytes` bytes at `offset` of the shared memory object `key` as `name`. */
enum rt_status srv_region_register(struct srv_shared_memory *m, struct rt_span name,
                                   struct rt_span key, uint64_t offset, uint64_t bytes,
                                   struct rt_error *err);
/* Forgets a region, or all regions if `name` is empty. Uses in progress continue. Forgetting a
 * region that is not registered has no effect. */
void srv_region_unregister(struct srv_shared_memory *m, struct rt_span name);
/* Sets *out to an array of *n entries in `arena`: one for the region with this name, or one for
 * each region if `name` is empty. */
enum rt_status srv_region_list(struct srv_shared_memory *m, struct rt_span name,
                               struct rt_arena *arena, struct srv_region_info **out, int *n,
                               struct rt_error *err);
/* Checks that the region has `bytes` bytes at `offset`. */
enum rt_status srv_region_check(struct srv_shared_memory *m, struct rt_span name, uint64_t offset,
                                uint64_t bytes, struct rt_error *err);
/* Copies `n` bytes from or to the region, starting at byte `offset` of the region. */
enum rt_status srv_region_read(struct srv_shared_memory *m, struct rt_span name, uint64_t offset,
                               void *dst, size_t n, struct rt_error *err);
enum rt_status srv_region_write(struct srv_shared_memory *m, struct rt_span name, uint64_t offset,
                                const void *src, size_t n, struct rt_error *err);

#endif
