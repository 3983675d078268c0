/*
 * TensorFlow Serving's API: PredictionService, SessionService and ModelService over gRPC, and its
 * REST API below /v1/. Error codes and messages are TensorFlow Serving's. gRPC and REST
 * have separate steps, because TensorFlow Serving reports some errors differently over each.
 */
#ifndef SRV_TFS_H
#define SRV_TFS_H

#include "server/protocol/protocol.h"

extern const struct srv_protocol srv_tfs;

/* The steps of gRPC methods. The names of the steps of REST requests end in _json. */
extern const struct srv_inference_steps srv_tfs_predict, srv_tfs_classify, srv_tfs_regress,
    srv_tfs_multi_inference, srv_tfs_session_run;
extern const struct srv_inference_steps srv_tfs_predict_json, srv_tfs_classify_json,
    srv_tfs_regress_json;
/* Returns the steps of the gRPC method for an API whose requests become jobs. */
const struct srv_inference_steps *srv_tfs_steps(enum srv_api api);

extern const struct srv_description_steps srv_tfs_metadata, srv_tfs_status;
extern const struct srv_description_steps srv_tfs_metadata_json, srv_tfs_status_json;
/* The steps of a status request that do not depend on the transport. srv_tfs_find_status needs
 * d->spec. */
enum rt_status srv_tfs_find_status(struct srv_description *d);
enum rt_status srv_tfs_gather_status(struct srv_description *d);
extern const struct srv_action_steps srv_tfs_reload;

/* Implements srv_inference_steps.check_spec for gRPC's methods. */
enum rt_status srv_tfs_check_spec(const struct srv_inference *inf, struct rt_error *err);
/* These functions implement log_request and log_response for inferences that are logged as Predict.
 * They use only the job and `wanted`. */
void srv_tfs_write_predict_request(const struct srv_inference *inf, struct rt_bytes *out);
enum rt_status srv_tfs_write_predict(struct srv_inference *inf, struct rt_bytes *out,
                                     struct rt_error *err);

/* These functions write the contents of a GetModelMetadata or GetModelStatus response in protobuf's
 * JSON format. */
void srv_tfs_write_metadata_json(struct rt_bytes *out, const char *model, int64_t version,
                                 const struct rt_meta_graph *graph);
void srv_tfs_write_status_json(struct rt_bytes *out, const struct srv_version_status *versions,
                               int n);

#endif
