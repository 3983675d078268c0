/*
 * The GPUs of the server: opens and closes them, and reacts to failures.
 *
 * Owner: the server.
 * Threads: the main thread opens and closes the GPUs.
 */
#ifndef SRV_GPUS_H
#define SRV_GPUS_H

#include "server/server.h"

/* exit status of the process if a GPU has failed and --gpu_on_fault is "exit" */
enum { SRV_EXIT_GPU_FAILED = 70 };

/* Opens the GPUs that the options name. */
enum rt_status srv_gpus_open(struct srv_server *s, struct rt_error *err);
/* Closes the GPUs. No model may be loaded on them. */
void srv_gpus_close(struct srv_server *s);

#endif
