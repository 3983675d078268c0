/* The protocols that the server speaks. */
#include "server/protocol/oip/oip.h"
#include "server/protocol/protocol.h"
#include "server/protocol/slipway/slipway.h"
#include "server/protocol/tfs/tfs.h"

static const struct srv_protocol *const rows[] = {&srv_tfs, &srv_oip, &srv_slipway};

const struct srv_protocols srv_protocols = {rows, sizeof rows / sizeof *rows};
