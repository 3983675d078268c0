/*
 * Writes the present variables of a served version as a new version: a complete SavedModel with the
 * files of the served version and a checkpoint of its variables.
 *
 * Threads: any. The caller keeps the version loaded during the call.
 */
#ifndef SRV_SNAPSHOT_H
#define SRV_SNAPSHOT_H

#include <stdint.h>

#include "runtime/base/check.h"
#include "runtime/files/file_access.h"
#include "server/base/serving_map.h"

struct srv_snapshot {
    int64_t version; /* number of the new version */
    char path[RT_FILE_NAME_BYTES];
};

/*
 * Writes a version to a new directory in `output`, an absolute path, which is made if it is
 * missing. The number of the new version is one more than that of `from` and than the highest
 * number in `output`. The directory gets its name when it is complete and on the disk, so that a
 * server that watches `output` never finds a part of a version. A failed call leaves no files.
 *
 * Returns RT_PERMISSION_DENIED if `output` is not below access->write_dirs, RT_FAILED_PRECONDITION
 * if the SavedModel cannot save its variables or its files have changed since they were loaded, and
 * RT_RESOURCE_EXHAUSTED if the file system would become too full. If `check` fails, returns its
 * status. The run that saves the variables ends with RT_CANCELLED if *cancelled becomes true.
 */
enum rt_status srv_snapshot_write(const struct srv_version *from, struct rt_span output,
                                  const struct rt_file_access *access, const struct rt_check *check,
                                  const _Atomic bool *cancelled, struct srv_snapshot *out,
                                  struct rt_error *err);

#endif
