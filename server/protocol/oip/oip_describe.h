/*
 * Finds the model, version and signature that a request for information names. Shared by the calls
 * that describe models: metadata, readiness, configuration and statistics.
 *
 * Threads: as struct srv_description (protocol.h) says of `find`.
 */
#ifndef SRV_OIP_DESCRIBE_H
#define SRV_OIP_DESCRIBE_H

#include "server/protocol/oip/oip.h"

/* The metadata of a model: the signature that d->spec names, and the numbers of the ready
 * versions. */
struct srv_oip_model {
    const struct rt_signature *sig;
    int n_versions;
    int64_t *versions;
};
/* Reads a request message into d->spec. Field 1 is the name of the model, and field 2 is the
 * version. */
enum rt_status srv_oip_read_model(struct srv_description *d);
/* Sets d->version to the version that d->spec names. Fails with NOT_FOUND if it is not ready. */
enum rt_status srv_oip_find_version(struct srv_description *d);
/* Finds the signature of d->version that d->spec names, or its default signature. */
enum rt_status srv_oip_find_signature(struct srv_description *d, const struct rt_signature **out);
/* Checks that d->version has the signature that d->spec names, if it names one. */
enum rt_status srv_oip_check_signature(struct srv_description *d);
/* Finds the version and the signature that d->spec names. Sets d->state to a struct
 * srv_oip_model. */
enum rt_status srv_oip_find_model(struct srv_description *d);
enum rt_status srv_oip_find_model_message(struct srv_description *d); /* after srv_oip_read_model */

#endif
