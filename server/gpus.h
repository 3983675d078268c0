/*
 * The GPUs of the server: opens them, chooses one for each version, and reacts when one fails.
 *
 * Owner: the server. Threads: the main thread opens and closes the GPUs; srv_gpus_choose may be
 * called on any thread.
 */
#ifndef SRV_GPUS_H
#define SRV_GPUS_H

#include "server/server.h"

/* exit status of the process after a GPU has failed and --gpu_on_fault=exit */
enum { SRV_EXIT_GPU_FAILED = 70 };

/* Opens the GPUs that the options name. */
enum rt_status srv_gpus_open(struct srv_server *s, struct rt_error *err);
/* Closes the GPUs. No model may be loaded. */
void srv_gpus_close(struct srv_server *s);
/* Returns the GPU on which the next version is to be loaded, which is the one with the least memory
 * in use. Returns NULL if there is none, or all have failed. */
struct rt_device *srv_gpus_choose(struct srv_server *s);

#endif
