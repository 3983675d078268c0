/* Makes an example request body from a signature, so that users can try a model. All functions are
 * pure. */
#ifndef SRV_SAMPLE_BODY_H
#define SRV_SAMPLE_BODY_H

#include "runtime/base/bytes.h"
#include "runtime/files/saved_model.h"

/* Returns a signature that has no side effects and only numeric inputs: serving_default if it
 * qualifies, otherwise the first signature that does. Returns NULL if no signature qualifies. */
const struct rt_model_signature *srv_sample_signature(const struct rt_model *m);
/* Appends the JSON body of a predict request. For a batched signature it has two rows, one filled
 * with ones and one with twos; for any other signature it has one value per input, filled with
 * ones, with unknown dimensions set to 1. */
void srv_sample_body(const struct rt_signature *s, struct rt_bytes *out);

#endif
