#include "runtime/base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/print.h"
#include "runtime/base/thread.h"

_Atomic int rt_log_level = RT_LOG_INFO;

enum {
    RING = 1024,
    LINE = 2048,
    STOP_NS = 1000000000, /* time that rt_log_stop waits for the next line to be written */
};

static struct {
    struct rt_mutex mu;
    struct rt_cond wake, written;
    pthread_t thread;
    enum rt_log_format format; /* set by rt_log_start */
    bool running, stopping;    /* guarded by mu */
    bool has_ended;            /* whether the thread has ended; guarded by mu */
    uint64_t n_written;        /* number of lines that the thread has written; guarded by mu */
    char *line[RING];          /* log lines that wait to be written; guarded by mu */
    size_t head, count, dropped;
    /* Standard error is a pipe that nobody reads. No line is written any more. */
    atomic_bool is_stuck;
} the_log = {.mu = RT_MUTEX_INIT};

static const char *const level_names[] = {"ERROR", "WARNING", "INFO", "DEBUG"};

const char *rt_log_level_name(enum rt_log_level level)
{
    return level_names[level];
}

static void put(const char *s, size_t n)
{
    while (n && !atomic_load(&the_log.is_stuck)) {
        ssize_t k = write(STDERR_FILENO, s, n);
        if (k <= 0)
            return;
        s += k;
        n -= (size_t)k;
    }
}

/* Escapes a string. Names of files, nodes and models are untrusted, and must not forge log lines or
 * send control sequences to a terminal. */
static size_t escape(char *dst, size_t capacity, const char *text, bool json)
{
    size_t n = 0;

    for (const unsigned char *s = (const unsigned char *)text; *s && n + 7 < capacity;) {
        const unsigned char c = *s;
        const size_t length = (size_t)rt_printable_length(s);
        if (length) {
            if (json && (c == '"' || c == '\\'))
                dst[n++] = '\\';
            memcpy(dst + n, s, length);
            n += length;
            s += length;
            continue;
        }
        if (c == '\n' || c == '\t')
            n += (size_t)snprintf(dst + n, capacity - n, "\\%c", c == '\n' ? 'n' : 't');
        else if (json && c < 0x80)
            n += (size_t)snprintf(dst + n, capacity - n, "\\u%04x", c);
        else
            n += (size_t)snprintf(dst + n, capacity - n, json ? "\\\\x%02x" : "\\x%02x", c);
        s++;
    }
    dst[n] = '\0';
    return n;
}

/* Writes the fields of a log line that follow the time and the level. Returns their length. */
typedef size_t write_rest(char *dst, size_t capacity, enum rt_log_level level, const void *arg);

static char *new_line(size_t capacity, enum rt_log_level level, write_rest *rest, const void *arg)
{
    struct timespec now;
    struct tm tm;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &tm);
    char when[48];
    size_t w = strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(when + w, sizeof when - w, ".%06ldZ", now.tv_nsec / 1000);
    capacity += 160;
    char *line = malloc(capacity);
    if (!line)
        return NULL;
    bool json = the_log.format == RT_LOG_JSON;
    size_t n = (size_t)snprintf(line, capacity,
                                json ? "{\"time\":\"%s\",\"level\":\"%s\",\"msg\":\"" : "%s %s ",
                                when, rt_log_level_name(level));
    n += rest(line + n, capacity - n, level, arg);
    snprintf(line + n, capacity - n, json ? "}\n" : "\n");
    return line;
}

static size_t write_text(char *dst, size_t capacity, enum rt_log_level level, const void *arg)
{
    const char *text = arg;
    (void)level;
    const bool json = the_log.format == RT_LOG_JSON;
    size_t n = escape(dst, capacity, text, json);
    return n + (size_t)snprintf(dst + n, capacity - n, json ? "\"" : "");
}

static char *format_line(enum rt_log_level level, const char *text)
{
    return new_line(strlen(text) * 6, level, write_text, text);
}

struct record {
    const char *event;
    const struct rt_log_field *fields;
    int n;
};

static size_t write_record(char *dst, size_t capacity, enum rt_log_level level, const void *arg)
{
    const struct record *r = arg;
    bool json = the_log.format == RT_LOG_JSON;
    size_t n = (size_t)snprintf(dst, capacity, json ? "%s\"" : "event=%s", r->event);
    (void)level;
    for (int i = 0; i < r->n; i++) {
        const struct rt_log_field *f = &r->fields[i];
        n += (size_t)snprintf(dst + n, capacity - n, json ? ",\"%s\":" : " %s=", f->name);
        if (!f->text) {
            n += (size_t)snprintf(dst + n, capacity - n, "%lld", (long long)f->number);
            continue;
        }
        if (json)
            dst[n++] = '"';
        for (const char *s = f->text; *s; s++) {
            bool plain = *s > ' ' && *s < 0x7f;
            if (json && (*s == '"' || *s == '\\'))
                dst[n++] = '\\';
            dst[n++] = plain ? *s : '?';
        }
        if (json)
            dst[n++] = '"';
    }
    return n;
}

static void *writer(void *arg)
{
    (void)arg;
    rt_mutex_lock(&the_log.mu);
    for (;;) {
        while (!the_log.count && !the_log.stopping)
            rt_cond_wait(&the_log.wake, &the_log.mu);
        if (!the_log.count)
            break;
        char *line = the_log.line[the_log.head];
        the_log.head = (the_log.head + 1) % RING;
        the_log.count--;
        size_t dropped = the_log.count ? 0 : the_log.dropped;
        if (dropped)
            the_log.dropped = 0;
        rt_mutex_unlock(&the_log.mu);
        put(line, strlen(line));
        free(line);
        if (dropped) {
            char text[64];
            snprintf(text, sizeof text, "log: %zu lines were dropped", dropped);
            line = format_line(RT_LOG_WARNING, text);
            if (line)
                put(line, strlen(line));
            free(line);
        }
        rt_mutex_lock(&the_log.mu);
        the_log.n_written++;
        rt_cond_signal(&the_log.written);
    }
    the_log.has_ended = true;
    rt_cond_signal(&the_log.written);
    rt_mutex_unlock(&the_log.mu);
    return NULL;
}

void rt_log_start(enum rt_log_format format)
{
    the_log.format = format;
    rt_cond_init(&the_log.wake);
    rt_cond_init(&the_log.written);
    the_log.stopping = the_log.has_ended = false;
    bool running = rt_thread_start(&the_log.thread, "log", writer, NULL) == 0;
    rt_mutex_lock(&the_log.mu);
    the_log.running = running;
    rt_mutex_unlock(&the_log.mu);
}

/* Waits until the thread has ended. Returns false if it writes no line for STOP_NS. */
static bool wait_for_writer(void) RT_REQUIRES(the_log.mu)
{
    bool is_alive = true;

    while (!the_log.has_ended && is_alive) {
        const uint64_t n = the_log.n_written;
        const int64_t end = rt_now_ns() + STOP_NS;
        while (!the_log.has_ended && the_log.n_written == n && is_alive)
            is_alive = rt_cond_wait_until(&the_log.written, &the_log.mu, end);
    }
    return the_log.has_ended;
}

void rt_log_stop(void)
{
    rt_mutex_lock(&the_log.mu);
    bool running = the_log.running;
    the_log.running = false;
    the_log.stopping = true;
    if (running)
        rt_cond_signal(&the_log.wake);
    const bool has_ended = !running || wait_for_writer();
    rt_mutex_unlock(&the_log.mu);
    if (!running)
        return;
    if (!has_ended) {
        /* The process ends while the thread waits for the pipe. */
        atomic_store(&the_log.is_stuck, true);
        pthread_detach(the_log.thread);
        return;
    }
    pthread_join(the_log.thread, NULL);
    rt_cond_clear(&the_log.wake);
    rt_cond_clear(&the_log.written);
}

/* Puts a line into the ring, or writes it directly if the log is not running. Takes ownership of
 * the line. Does nothing if `line` is NULL. */
static void queue(char *line)
{
    if (!line)
        return;
    rt_mutex_lock(&the_log.mu);
    bool queued = the_log.running && the_log.count < RING, direct = !the_log.running;
    if (queued) {
        the_log.line[(the_log.head + the_log.count++) % RING] = line;
        rt_cond_signal(&the_log.wake);
    } else if (!direct)
        the_log.dropped++;
    rt_mutex_unlock(&the_log.mu);
    if (direct)
        put(line, strlen(line));
    if (!queued)
        free(line);
}

void rt_log_write(enum rt_log_level level, const char *fmt, ...)
{
    char stack[LINE], *text = stack;
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(stack, sizeof stack, fmt, ap);
    va_end(ap);
    if (n >= LINE && (text = malloc((size_t)n + 1)))
        vsnprintf(text, (size_t)n + 1, fmt, again);
    va_end(again);
    if (!text)
        text = stack;
    queue(format_line(level, text));
    if (text != stack)
        free(text);
}

void rt_log_record(enum rt_log_level level, const char *event, const struct rt_log_field *fields,
                   int n)
{
    struct record r = {event, fields, n};
    size_t capacity = strlen(event);
    for (int i = 0; i < n; i++)
        capacity += strlen(fields[i].name) + (fields[i].text ? 2 * strlen(fields[i].text) : 20) + 8;
    queue(new_line(capacity, level, write_record, &r));
}
