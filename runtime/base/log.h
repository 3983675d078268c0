/*
 * The log has one line for each event and is written to standard error. A separate thread writes
 * the lines, because standard error may be a pipe that blocks. Lines wait in a ring. When the ring
 * is full, new lines are dropped and counted, and the log reports the count.
 *
 * Threads: rt_log_write and rt_log_record may be called on any thread; they never block on I/O
 * while the log runs. rt_log_start and rt_log_stop are called on the main thread only. Before
 * rt_log_start and after rt_log_stop, lines are written directly. Kernels do not log.
 */
#ifndef RT_BASE_LOG_H
#define RT_BASE_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime/base/status.h"

enum rt_log_level { RT_LOG_ERROR, RT_LOG_WARNING, RT_LOG_INFO, RT_LOG_DEBUG };
enum rt_log_format { RT_LOG_TEXT, RT_LOG_JSON };

extern _Atomic int rt_log_level; /* messages above this level are discarded */

const char *rt_log_level_name(enum rt_log_level level); /* such as "WARNING" */

void rt_log_start(enum rt_log_format format);
/* Writes the waiting lines. If standard error accepts no line for a second, gives up: no line is
 * written any more, and the thread, which cannot be stopped, keeps waiting until the process ends.
 */
void rt_log_stop(void);

/*
 * Logs a message as one line. Newlines, other control characters and invalid UTF-8 are escaped. In
 * text format, the line contains the time, the level and the message. In JSON format, the line is
 * an object with the members "time", "level" and "msg".
 */
void rt_log_write(enum rt_log_level level, const char *fmt, ...) RT_PRINTF(2, 3);

/* A field of a log record. If `text` is NULL, the field's value is `number`. */
struct rt_log_field {
    const char *name; /* name of the field; not escaped, because the program defines it */
    const char *text;
    int64_t number;
};
/*
 * Logs a record of fields. In text format, the line is "event=EVENT name=value ...". In values, a
 * question mark replaces each space and each byte that is not printable ASCII. In JSON format, the
 * line is {"time","level","msg":EVENT,name:value...}.
 */
void rt_log_record(enum rt_log_level level, const char *event, const struct rt_log_field *fields,
                   int n);

#define RT_LOG(level, ...)                                                                         \
    do {                                                                                           \
        if ((int)(level) <= atomic_load_explicit(&rt_log_level, memory_order_relaxed))             \
            rt_log_write((level), __VA_ARGS__);                                                    \
    } while (0)

#endif
