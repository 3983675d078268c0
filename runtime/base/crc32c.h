/* CRC-32C (Castagnoli), the checksum in TensorFlow's files. Threads: any; these are pure. */
#ifndef RT_BASE_CRC32C_H
#define RT_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* The checksum of n more bytes after those whose checksum is `crc` (0: there are none). */
uint32_t rt_crc32c(uint32_t crc, const void *p, size_t n);

/* The masked form, which files store: rotated and with an offset, so that the CRC of data that
 * contains CRCs stays useful. */
static inline uint32_t rt_crc32c_mask(uint32_t crc)
{
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

#endif
