/* Makes a request body for trying out a model from its signature. Pure functions. */
#ifndef SRV_SAMPLE_BODY_H
#define SRV_SAMPLE_BODY_H

#include "runtime/base/bytes.h"
#include "runtime/files/saved_model.h"

/* Returns a signature that has no side effects and whose inputs are plain numbers: serving_default,
 * else the first that qualifies, else NULL. */
const struct rt_model_signature *srv_sample_signature(const struct rt_model *m);
/* Appends a JSON body for predict. A batched signature gets two rows, of ones and of twos; any
 * other gets one value per input, of ones, with unknown dimensions set to 1. */
void srv_sample_body(const struct rt_signature *s, struct rt_bytes *out);

#endif
