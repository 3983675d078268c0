/* Creates an example request body for a signature, so that users can try a model. All functions are
 * pure. */
#ifndef SRV_SAMPLE_BODY_H
#define SRV_SAMPLE_BODY_H

#include "runtime/base/bytes.h"
#include "runtime/files/saved_model.h"

/* Returns whether a name consists only of letters, digits and "_-.:/". The shell interprets none of
 * these characters. Users can therefore safely paste a command line with such a name from a model's
 * files. */
bool srv_sample_is_plain_name(const char *name);
/* Returns a signature without side effects, with only numeric inputs and only plain names
 * (srv_sample_is_plain_name). Prefers serving_default over others, and then earlier signatures.
 * Returns NULL if there is no such signature. */
const struct rt_model_signature *srv_sample_signature(const struct rt_model *m);
/* Appends the JSON body of a predict request. For a batched signature, the body has two rows. The
 * first row contains ones, and the second row contains twos. For any other signature, the body has
 * one value per input, filled with ones. Unknown dimensions of an input have length 1 in its value.
 * Writing stops at the size limit of `out`, which also bounds the time. */
void srv_sample_body(const struct rt_signature *s, struct rt_bytes *out);

#endif
