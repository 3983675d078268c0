#include "server/telemetry/metrics_total.h"

#include <math.h>
#include <stdlib.h>

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* Returns whether the line is a sample of the metric: the metric's name, followed by labels or a
 * value. */
static bool is_of(struct rt_span line, struct rt_span name)
{
    if (line.n <= name.n || (line.p[name.n] != '{' && line.p[name.n] != ' '))
        return false;
    for (size_t i = 0; i < name.n; i++) {
        char c = (char)name.p[i];
        if ((char)line.p[i] != (is_word(c) ? c : c == '/' || c == ':' ? ':' : '_'))
            return false;
    }
    return true;
}

int64_t srv_metrics_total(struct rt_span page, struct rt_span name)
{
    double total = 0;

    while (page.n) {
        const unsigned char *end = memchr(page.p, '\n', page.n);
        struct rt_span line = rt_span_of(page.p, end ? (size_t)(end - page.p) : page.n);
        if (name.n && is_of(line, name)) {
            const unsigned char *blank = memrchr(line.p, ' ', line.n);
            char buffer[64] = "";
            size_t n = blank ? (size_t)(line.p + line.n - blank - 1) : 0;
            if (n && n < sizeof buffer) {
                memcpy(buffer, blank + 1, n);
                double value = strtod(buffer, NULL);
                total += isfinite(value) ? value : 0;
            }
        }
        page.p += line.n + (end != NULL);
        page.n -= line.n + (end != NULL);
    }
    return fabs(total) < 9e18 ? (int64_t)total : 0;
}
