#include "server/telemetry/metrics_total.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* Returns the character that replaces c in a counter's name on the metrics page. */
static char on_page(unsigned char c)
{
    return is_word((char)c) ? (char)c : c == '/' || c == ':' ? ':' : '_';
}

/* Compares a name on the metrics page with a counter's name. Compares first the bytes of the names,
 * as memcmp does, and then the lengths. */
static int compare(struct rt_span printed, struct rt_span name)
{
    for (size_t i = 0; i < printed.n && i < name.n; i++)
        if ((char)printed.p[i] != on_page(name.p[i]))
            return (char)printed.p[i] < on_page(name.p[i]) ? -1 : 1;
    return printed.n < name.n ? -1 : printed.n > name.n;
}

static int by_name(const void *a, const void *b)
{
    const struct rt_span x = ((const struct srv_total *)a)->name;
    const struct rt_span y = ((const struct srv_total *)b)->name;
    for (size_t i = 0; i < x.n && i < y.n; i++)
        if (on_page(x.p[i]) != on_page(y.p[i]))
            return on_page(x.p[i]) < on_page(y.p[i]) ? -1 : 1;
    return x.n < y.n ? -1 : x.n > y.n;
}

/* Returns the index of the first element of `totals` whose name is not less than `printed`. */
static int find(struct rt_span printed, const struct srv_total *totals, int n)
{
    int low = 0, high = n;
    while (low < high) {
        const int mid = (low + high) / 2;
        if (compare(printed, totals[mid].name) > 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* Returns the name at the beginning of a sample, before its labels or value. The name is empty if
 * the line is not a sample. */
static struct rt_span name_of(struct rt_span line)
{
    for (size_t i = 0; i < line.n; i++)
        if (line.p[i] == '{' || line.p[i] == ' ')
            return rt_span_of(line.p, i);
    return rt_span_of(line.p, 0);
}

/* Returns the value at the end of a sample, or 0 if it is not a finite number. */
static double value_of(struct rt_span line)
{
    const unsigned char *blank = memrchr(line.p, ' ', line.n);
    const size_t n = blank ? (size_t)(line.p + line.n - blank - 1) : 0;
    char buffer[64];

    if (!n || n >= sizeof buffer)
        return 0;
    memcpy(buffer, blank + 1, n);
    buffer[n] = '\0';
    const double value = strtod(buffer, NULL);
    return isfinite(value) ? value : 0;
}

void srv_metrics_totals(struct rt_span page, struct srv_total *totals, int n)
{
    for (int i = 0; i < n; i++)
        totals[i].value = 0;
    if (n)
        qsort(totals, (size_t)n, sizeof *totals, by_name);
    while (page.n) {
        const unsigned char *end = memchr(page.p, '\n', page.n);
        const struct rt_span line = rt_span_of(page.p, end ? (size_t)(end - page.p) : page.n);
        const struct rt_span name = name_of(line);
        int i = name.n ? find(name, totals, n) : n;
        for (; i < n && compare(name, totals[i].name) == 0; i++)
            totals[i].value += value_of(line);
        page.p += line.n + (end != NULL);
        page.n -= line.n + (end != NULL);
    }
}
