/* Reads files named on the command line. Threads: any thread may call these functions. */
#ifndef CL_FILE_H
#define CL_FILE_H

#include "runtime/base/arena.h"
#include "runtime/base/bytes.h"

/* Reads a complete file into `out`, which must be initialised. The path "-" means standard
 * input. */
enum rt_status cl_read_file(const char *path, struct rt_bytes *out, struct rt_error *err);
enum rt_status cl_read_text(const char *path, struct rt_arena *arena, const char **out,
                            struct rt_error *err);

#endif
