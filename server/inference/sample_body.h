/* Makes an example request body from a signature, so that users can try a model. All functions are
 * pure. */
#ifndef SRV_SAMPLE_BODY_H
#define SRV_SAMPLE_BODY_H

#include "runtime/base/bytes.h"
#include "runtime/files/saved_model.h"

/* Returns whether a name consists only of letters, digits and "_-.:/". The shell interprets none of
 * these characters, so users can safely paste a command line with such names, which come from a
 * model's files. */
bool srv_sample_is_plain_name(const char *name);
/* Returns a signature that has no side effects, only numeric inputs and only plain names (see
 * srv_sample_is_plain_name): serving_default if it meets these conditions, otherwise the first
 * signature that does. Returns NULL if there is no such signature. */
const struct rt_model_signature *srv_sample_signature(const struct rt_model *m);
/* Appends the JSON body of a predict request. For a batched signature, the body has two rows, one
 * filled with ones and one with twos. For any other signature, the body has one value per input,
 * which is filled with ones and whose unknown dimensions are 1. Writing stops when `out` reaches
 * its size limit, so this limit also bounds the time. */
void srv_sample_body(const struct rt_signature *s, struct rt_bytes *out);

#endif
