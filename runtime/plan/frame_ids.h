/*
 * Numbers the frames of TensorFlow 1's loops. A frame is identified by its name and the frame
 * around it. Numbering takes time in proportion to the bytes of the names, whatever the number of
 * frames, because the names and the number of frames come from a model's author.
 */
#ifndef RT_PLAN_FRAME_IDS_H
#define RT_PLAN_FRAME_IDS_H

#include "runtime/base/map.h"
#include "runtime/base/span.h"

struct rt_frame_ids { /* initially zero */
    struct rt_map names;
    struct rt_map pairs; /* a parent frame and the number of a name */
};

/* Returns the number of the frame `name` inside the frame `parent`: 1 for the first frame, and so
 * on. The outermost frame has number 0 and no parent. Returns 0 if out of memory. */
int rt_frame_id(struct rt_frame_ids *f, int parent, struct rt_span name);
void rt_frame_ids_clear(struct rt_frame_ids *f);

#endif
