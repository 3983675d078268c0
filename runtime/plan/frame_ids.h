/*
 * Numbers the frames of TensorFlow 1's loops. A frame is identified by its name and the frame
 * around it. Numbering takes time in proportion to the bytes of the names, whatever the number of
 * frames, because the names and the number of frames come from a model's author.
 */
#ifndef RT_PLAN_FRAME_IDS_H
#define RT_PLAN_FRAME_IDS_H

#include "runtime/base/map.h"
#include "runtime/base/span.h"

/* Must be zero before the first use. */
struct rt_frame_ids {
    struct rt_map names; /* maps each name to its number */
    struct rt_map pairs; /* maps {number of the parent, number of the name} to a frame's number */
};

/* Returns the number of the frame `name` inside the frame `parent`: 1 for the first frame, and so
 * on. The outermost frame has number 0 and no parent. Returns 0 if out of memory. */
int rt_frame_id(struct rt_frame_ids *f, int parent, struct rt_span name);
void rt_frame_ids_clear(struct rt_frame_ids *f);

#endif
