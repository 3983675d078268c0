/*
 * Parses and writes the numbers of JSON text. A decimal is always rounded correctly when it is
 * parsed, and written in the form that TensorFlow Serving prints. All functions are pure.
 */
#ifndef SRV_JSON_NUMBER_H
#define SRV_JSON_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* size of the buffer passed to a writer; the writer may overwrite all of it */
enum { SRV_NUMBER_BYTES = 32 };

/* The kind of a number token according to JSON's rules, as in RapidJSON. */
enum srv_number_kind {
    SRV_NUMBER_NONE,   /* the text does not begin with a number */
    SRV_NUMBER_INT,    /* an integer without exponent that fits int64; the value is in `i` */
    SRV_NUMBER_UINT,   /* an integer without exponent that fits only uint64; the value is in `u` */
    SRV_NUMBER_DOUBLE, /* any other number, including NaN and Infinity; the value is in `d` */
};

struct srv_number {
    enum srv_number_kind kind;
    double d; /* the value as a double, set for every kind of number */
    int64_t i;
    uint64_t u;
};

/*
 * Parses the number token at p. Its syntax (sign, digits, fraction, exponent, or NaN, Inf,
 * Infinity) was already checked. Returns the address of the byte after the token, or p if there is
 * no number.
 */
const unsigned char *srv_number_read(const unsigned char *p, const unsigned char *end,
                                     struct srv_number *out);
/* Parses a number as a double. Returns the address of the byte after the number, or NULL if
 * there is no number at p. */
const unsigned char *srv_double_read(const unsigned char *p, const unsigned char *end, double *out);

/* Parses a number as a float. The number is rounded correctly to a double, and the double is then
 * rounded to a float as by a cast. */
const unsigned char *srv_float_read(const unsigned char *p, const unsigned char *end, float *out);

/*
 * Each of these functions writes a number and returns the length of the text. Integers are written
 * in decimal. A float or double is written as %g writes it with 6 digits, or with 9 (float) or 17
 * (double) digits if 6 digits do not read back as the same value. ".0" is appended if that text has
 * neither '.' nor 'e'. Special values are written as NaN, Infinity and -Infinity.
 */
size_t srv_float_write(char *buffer, float x);
size_t srv_double_write(char *buffer, double x);
size_t srv_int_write(char *buffer, int64_t x);
size_t srv_uint_write(char *buffer, uint64_t x);

#endif
