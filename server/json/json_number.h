/*
 * Parses and writes the numbers in JSON text. Parsing rounds a decimal number correctly to a
 * double. Numbers are written in TensorFlow Serving's form. All functions are pure.
 */
#ifndef SRV_JSON_NUMBER_H
#define SRV_JSON_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* size in bytes of the buffer passed to a writer; the writer may overwrite all of it */
enum { SRV_NUMBER_BYTES = 32 };

/* The kind of a number token according to JSON's rules, as in RapidJSON. */
enum srv_number_kind {
    SRV_NUMBER_NONE, /* no number */
    /* an integer without an exponent that fits into int64; `i` is its value */
    SRV_NUMBER_INT,
    /* an integer without an exponent that fits into uint64 but not into int64; `u` is its value */
    SRV_NUMBER_UINT,
    SRV_NUMBER_DOUBLE, /* any other number, including NaN and Infinity; `d` is its value */
};

struct srv_number {
    enum srv_number_kind kind;
    double d; /* the value as a double, for every kind of number */
    int64_t i;
    uint64_t u;
};

/*
 * Parses the number token at p. Its syntax (sign, digits, fraction, exponent, or NaN, Inf,
 * Infinity) must have been checked. Returns the address of the byte after the token, or p if there
 * is no number.
 */
const unsigned char *srv_number_read(const unsigned char *p, const unsigned char *end,
                                     struct srv_number *out);
/* Parses a number as a double. Returns the address of the byte after the number, or NULL if
 * there is no number at p. */
const unsigned char *srv_double_read(const unsigned char *p, const unsigned char *end, double *out);

/* Parses a number as a float: rounds it correctly to a double, and casts the double to a float. */
const unsigned char *srv_float_read(const unsigned char *p, const unsigned char *end, float *out);

/*
 * These functions write a number and return the length of the text. Integers are written in
 * decimal. A float or double is written in the format of %g with 6 digits. If reading these 6
 * digits yields a different value, a float is written with 9 digits, and a double with 17 digits.
 * ".0" is appended if the text has neither '.' nor 'e'. NaN and the infinities are written as NaN,
 * Infinity and -Infinity.
 */
size_t srv_float_write(char *buffer, float x);
size_t srv_double_write(char *buffer, double x);
size_t srv_int_write(char *buffer, int64_t x);
size_t srv_uint_write(char *buffer, uint64_t x);

#endif
