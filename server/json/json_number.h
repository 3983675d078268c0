/*
 * Numbers as JSON text: decimal to binary, always correctly rounded, and the decimal forms that
 * TensorFlow Serving prints. Pure functions over bytes.
 */
#ifndef SRV_JSON_NUMBER_H
#define SRV_JSON_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SRV_NUMBER_BYTES = 32 }; /* bytes that each writer below may store to, used or not */

/* What a number token is, by JSON alone: RapidJSON's view. */
enum srv_number_kind {
    SRV_NUMBER_NONE,   /* no number starts here */
    SRV_NUMBER_INT,    /* no fraction, no exponent, fits int64: `i` */
    SRV_NUMBER_UINT,   /* the same, above int64, fits uint64: `u` */
    SRV_NUMBER_DOUBLE, /* anything else, NaN and Infinity too: `d` */
};

struct srv_number {
    enum srv_number_kind kind;
    double d; /* set for every kind */
    int64_t i;
    uint64_t u;
};

/*
 * Reads the number token at p, which a syntax check has already let pass (sign, digits, fraction,
 * exponent, or NaN, Inf, Infinity). Returns the byte after it; p itself when there is none.
 */
const unsigned char *srv_number_read(const unsigned char *p, const unsigned char *end,
                                     struct srv_number *out);
/* The same for callers that want the double only. NULL: no number here. */
const unsigned char *srv_double_read(const unsigned char *p, const unsigned char *end, double *out);

/* The same as a float: the double, correctly rounded, rounded again, as a cast does. */
const unsigned char *srv_float_read(const unsigned char *p, const unsigned char *end, float *out);

/*
 * %g with 6 digits, or 9 (float) or 17 (double) when 6 do not come back to the same value; ".0" is
 * appended when neither '.' nor 'e' occurs. NaN, Infinity, -Infinity. Return the length.
 */
size_t srv_float_write(char *buffer, float x);
size_t srv_double_write(char *buffer, double x);
size_t srv_int_write(char *buffer, int64_t x);
size_t srv_uint_write(char *buffer, uint64_t x);

#endif
