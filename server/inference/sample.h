/* A request body to try a model with, made from its signature. Pure. */
#ifndef SRV_SAMPLE_H
#define SRV_SAMPLE_H

#include "runtime/base/bytes.h"
#include "runtime/files/saved_model.h"

/* The signature to try, one that changes nothing: serving_default if plain numbers do, else the
 * first such one, else NULL. */
const struct rt_model_signature *srv_sample_signature(const struct rt_model *m);
/* Appends a JSON body for predict: two rows of ones where the signature is batched, else one value
 * per input with unknown dimensions 1. */
void srv_sample_body(const struct rt_signature *s, struct rt_bytes *out);

#endif
