/* Writes a SignatureDef in protobuf's text format. Error messages contain this text. */
#ifndef SRV_SIGNATURE_TEXT_H
#define SRV_SIGNATURE_TEXT_H

#include "runtime/base/bytes.h"
#include "runtime/files/saved_model.h"

void srv_signature_text(struct rt_bytes *out, const struct rt_signature *sig);

#endif
