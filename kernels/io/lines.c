#include "kernels/io/lines.h"

#include <string.h>

#include "kernels/string/text.h"
#include "runtime/base/regular_file.h"

/* LINE_WORK is the work per line, in units of rt_run_spend, in addition to BYTE_WORK for each of
 * the line's bytes. */
enum { MAX_LINE = 64 << 20, LINE_WORK = 64, BYTE_WORK = 4 };

enum rt_status kn_lines_open(struct kn_lines *l, struct rt_run *r, struct rt_span path)
{
    if (path.n == 0 || path.n >= sizeof l->path || memchr(path.p, 0, path.n))
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Can't open a vocabulary under this name");
    memcpy(l->path, path.p, path.n);
    l->path[path.n] = '\0';
    const enum rt_status st = rt_open_regular_stream(l->path, &l->file, r->err);
    if (st)
        return st;
    l->r = r;
    l->n = 0;
    kn_text_begin(&l->line, r);
    l->line.limit = MAX_LINE;
    return RT_OK;
}

/* The number of carriage returns in a line is unlimited, so the run is checked while they are
 * read. */
enum rt_status kn_lines_next(struct kn_lines *l, bool *any)
{
    struct rt_run *r = l->r;
    int c = getc_unlocked(l->file);
    enum rt_status st = RT_OK;

    *any = c != EOF;
    l->line.n = 0;
    for (; c != EOF && c != '\n' && !l->line.failed && !st; c = getc_unlocked(l->file))
        if (c == '\r')
            st = rt_run_spend(r, &r->left, BYTE_WORK);
        else
            rt_bytes_addc(&l->line, (char)c);
    if (st)
        return st;
    if (ferror(l->file))
        return rt_fail(r->err, RT_DATA_LOSS, "%s: reading failed", l->path);
    if (l->line.no_memory)
        return kn_text_failed(&l->line);
    if (l->line.failed)
        return rt_fail(r->err, RT_RESOURCE_EXHAUSTED, "%s: line %lld has more than %d bytes",
                       l->path, (long long)l->n + 1, (int)MAX_LINE);
    l->n += *any;
    return rt_run_spend(r, &r->left, LINE_WORK + BYTE_WORK * (int64_t)l->line.n);
}

void kn_lines_close(struct kn_lines *l)
{
    kn_text_end(&l->line);
    fclose(l->file);
}
