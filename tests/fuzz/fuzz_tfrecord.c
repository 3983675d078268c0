/* Reads the input as a file of records, including their checksums. Then writes the complete input
 * as one record with correct checksums and reads that record back. */
#include <stdint.h>
#include <stdlib.h>

#include "runtime/base/tfrecord.h"
#include "tests/fuzz/cost.h"

const struct fuzz_cost fuzz_cost = FUZZ_PARSER;

void fuzz_one(const uint8_t *data, size_t size)
{
    struct rt_error err = {0};
    struct rt_span record;
    struct rt_bytes out;
    rt_bytes_init(&out, 1 << 24);
    struct rt_tfrecord *r = rt_tfrecord_over(rt_span_of(data, size));
    while (r && rt_tfrecord_next(r, &record, &err) == RT_OK)
        rt_tfrecord_add(&out, record.p, record.n);
    /* Writing the records that were read must give the bytes with which the file begins. */
    if (r && !out.failed && out.n && (out.n > size || memcmp(out.p, data, out.n) != 0))
        abort();
    rt_tfrecord_close(r);
    rt_bytes_clear(&out);

    rt_tfrecord_add(&out, data, size);
    r = rt_tfrecord_over(rt_span_of(out.p, out.n));
    if (r && !out.failed &&
        (rt_tfrecord_next(r, &record, &err) != RT_OK ||
         !rt_span_eq(record, rt_span_of(data, size))))
        abort();
    rt_tfrecord_close(r);
    rt_bytes_clear(&out);
}
