/*
 * Page-locked host memory for the blocks of pools (pool.h). An accelerator copies from and to such
 * memory several times as fast as from other host memory, and while the host goes on. Locking pages
 * takes time, so freed regions are kept locked for later allocations. Threads do not wait while
 * another thread locks or unlocks pages.
 *
 * Threads: rt_pinned_alloc and rt_pinned_free may be called on any thread. rt_pinned_begin and
 * rt_pinned_end are called when accelerators are opened and closed.
 */
#ifndef RT_PINNED_H
#define RT_PINNED_H

#include "runtime/core/device.h"

/* Smaller blocks are not worth the time of locking their pages. */
enum { RT_PINNED_LEAST = 1 << 20 };

/* Lets the accelerator lock pages, at most `limit` bytes in all. Regions that are being unlocked to
 * make room do not count. Does nothing if the accelerator cannot lock pages or another accelerator
 * already does. */
void rt_pinned_begin(struct rt_device *d, size_t limit);
/* Unlocks all pages. Waits until no thread locks pages, unless the accelerator fails. Regions that
 * are still in use stay valid. Does nothing if `d` is not the accelerator that locks pages. */
void rt_pinned_end(struct rt_device *d);

/* Returns a page-locked region of at least n bytes, aligned to a page, or NULL if no accelerator
 * locks pages or the limit is reached. The bytes are not initialised. */
void *rt_pinned_alloc(size_t n);
/* Gives back the region. Returns false if rt_pinned_alloc did not return it. */
bool rt_pinned_free(void *region);

#endif
