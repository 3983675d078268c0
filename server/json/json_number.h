/*
 * Numbers in JSON text: reading decimals into binary, always correctly rounded, and writing the
 * decimal forms that TensorFlow Serving prints. Pure functions over bytes.
 */
#ifndef SRV_JSON_NUMBER_H
#define SRV_JSON_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SRV_NUMBER_BYTES = 32 }; /* bytes that a writer below may overwrite, whatever the length */

/* The kind of a number token by JSON's rules alone, as RapidJSON sees it. */
enum srv_number_kind {
    SRV_NUMBER_NONE,   /* no number begins here */
    SRV_NUMBER_INT,    /* without fraction and exponent, fits int64: `i` */
    SRV_NUMBER_UINT,   /* without fraction and exponent, fits only uint64: `u` */
    SRV_NUMBER_DOUBLE, /* any other number, NaN and Infinity included: `d` */
};

struct srv_number {
    enum srv_number_kind kind;
    double d; /* set for every kind */
    int64_t i;
    uint64_t u;
};

/*
 * Reads the number token at p, whose syntax was checked (sign, digits, fraction, exponent, or NaN,
 * Inf, Infinity). Returns the byte after it, or p if there is no number.
 */
const unsigned char *srv_number_read(const unsigned char *p, const unsigned char *end,
                                     struct srv_number *out);
/* Reads only the double. NULL: no number here. */
const unsigned char *srv_double_read(const unsigned char *p, const unsigned char *end, double *out);

/* Reads a float: the correctly rounded double, rounded again as by a cast. */
const unsigned char *srv_float_read(const unsigned char *p, const unsigned char *end, float *out);

/*
 * Writes %g with 6 digits, or with 9 (float) or 17 (double) if 6 do not read back as the same
 * value. ".0" is appended if the text has neither '.' nor 'e'. NaN, Infinity, -Infinity. Returns
 * the length.
 */
size_t srv_float_write(char *buffer, float x);
size_t srv_double_write(char *buffer, double x);
size_t srv_int_write(char *buffer, int64_t x);
size_t srv_uint_write(char *buffer, uint64_t x);

#endif
