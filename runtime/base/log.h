/*
 * The log: one event a line, to standard error, from a writer thread of its own, because standard
 * error may be a blocked pipe. A full ring drops lines and says how many.
 *
 * Threads: rt_log_write from any thread, never blocks on I/O. start and stop from main only; before
 * start and after stop lines are written directly.
 * Never called from kernels.
 */
#ifndef RT_BASE_LOG_H
#define RT_BASE_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime/base/status.h"

enum rt_log_level { RT_LOG_ERROR, RT_LOG_WARNING, RT_LOG_INFO, RT_LOG_DEBUG };
enum rt_log_format { RT_LOG_TEXT, RT_LOG_JSON };

extern _Atomic int rt_log_level; /* lines above this level are not made */

void rt_log_start(enum rt_log_format format);
void rt_log_stop(void); /* writes what is left */

/*
 * The text is the line as people and scripts read it: newlines, other control characters and what
 * is no UTF-8 are escaped. Text format: time, level, text. JSON format: {"time","level","msg"}.
 */
void rt_log_write(enum rt_log_level level, const char *fmt, ...) RT_PRINTF(2, 3);

/* One field of a record. `text` NULL: it is the number. */
struct rt_log_field {
    const char *name; /* a word of ours: never escaped */
    const char *text;
    int64_t number;
};
/*
 * A line of fields. Text format: "event=EVENT name=value ..."; what is no printable ASCII of a
 * text, and blanks, become question marks. JSON format: {"time","level","msg":EVENT,name:value...}.
 */
void rt_log_record(enum rt_log_level level, const char *event, const struct rt_log_field *fields,
                   int n);

#define RT_LOG(level, ...)                                                                         \
    do {                                                                                           \
        if ((int)(level) <= atomic_load_explicit(&rt_log_level, memory_order_relaxed))             \
            rt_log_write((level), __VA_ARGS__);                                                    \
    } while (0)

#endif
