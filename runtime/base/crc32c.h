/* CRC-32C (Castagnoli), the checksum of TensorFlow's files. */
#ifndef RT_BASE_CRC32C_H
#define RT_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Continues from `crc` (0 at first). */
uint32_t rt_crc32c(uint32_t crc, const void *p, size_t n);

/* The form stored in files: rotated and offset, so that a checksum of checksums stays good. */
static inline uint32_t rt_crc32c_mask(uint32_t crc)
{
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

#endif
