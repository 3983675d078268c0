/*
 * The log: one line for each event, on standard error. A thread writes the lines, because standard
 * error may be a pipe that blocks. Lines wait in a ring; when it is full, lines are dropped, and
 * the log says how many.
 *
 * Threads: rt_log_write and rt_log_record on any thread; they never block on I/O while the log
 * runs. rt_log_start and rt_log_stop on the main thread only; before start and after stop, lines
 * are written directly. Kernels do not log.
 */
#ifndef RT_BASE_LOG_H
#define RT_BASE_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime/base/status.h"

enum rt_log_level { RT_LOG_ERROR, RT_LOG_WARNING, RT_LOG_INFO, RT_LOG_DEBUG };
enum rt_log_format { RT_LOG_TEXT, RT_LOG_JSON };

extern _Atomic int rt_log_level; /* lines above this level are not formatted */

void rt_log_start(enum rt_log_format format);
void rt_log_stop(void); /* writes the lines that are left */

/*
 * Logs a text. Newlines, other control characters and invalid UTF-8 are escaped, so that a text is
 * one line. Text format: time, level, text. JSON format: {"time","level","msg"}.
 */
void rt_log_write(enum rt_log_level level, const char *fmt, ...) RT_PRINTF(2, 3);

/* A field of a record. `text` NULL: the value is `number`. */
struct rt_log_field {
    const char *name; /* a word from our code: not escaped */
    const char *text;
    int64_t number;
};
/*
 * Logs a record of fields. Text format: "event=EVENT name=value ..."; blanks and bytes that are not
 * printable ASCII become question marks. JSON format: {"time","level","msg":EVENT,name:value...}.
 */
void rt_log_record(enum rt_log_level level, const char *event, const struct rt_log_field *fields,
                   int n);

#define RT_LOG(level, ...)                                                                         \
    do {                                                                                           \
        if ((int)(level) <= atomic_load_explicit(&rt_log_level, memory_order_relaxed))             \
            rt_log_write((level), __VA_ARGS__);                                                    \
    } while (0)

#endif
