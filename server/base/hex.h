/* Hexadecimal digits. */
#ifndef SRV_HEX_H
#define SRV_HEX_H

/* Returns the value of a hexadecimal digit in either case, or -1 if `c` is not one. */
static inline int srv_hex_digit(unsigned char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

#endif
