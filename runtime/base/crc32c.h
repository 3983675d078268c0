/* CRC-32C (Castagnoli), the checksum in TensorFlow's files. Threads: any; these functions are
 * pure. */
#ifndef RT_BASE_CRC32C_H
#define RT_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Extends the checksum `crc` by the n bytes at `p` and returns the result. `crc` is the checksum of
 * the preceding bytes, or 0 if there are none. */
uint32_t rt_crc32c(uint32_t crc, const void *p, size_t n);

/* Returns the masked form in which files store a checksum. Masking rotates the checksum and adds a
 * constant, so that a CRC of data that contains CRCs still detects errors. */
static inline uint32_t rt_crc32c_mask(uint32_t crc)
{
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

#endif
