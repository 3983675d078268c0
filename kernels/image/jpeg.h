/*
 * The error handler for calls of libjpeg. libjpeg reports an error by calling error_exit, which
 * must not return. The handler's error_exit jumps to the setjmp of the codec. The codec then frees
 * libjpeg's structures.
 *
 * Threads: a handler belongs to one call of a codec.
 */
#ifndef KN_IMAGE_JPEG_H
#define KN_IMAGE_JPEG_H

#include <setjmp.h>
#include <stdio.h> /* jpeglib.h needs FILE and size_t */

#include <jpeglib.h>

struct kn_jpeg_error {
    /* must be the first member, because libjpeg passes a pointer to it */
    struct jpeg_error_mgr lib;
    jmp_buf jump;
};
/* Initialises `e`, which drops messages and, on an error, jumps to e->jump. The caller must set
 * e->jump before it calls libjpeg. Returns the pointer to store in libjpeg's `err`. */
struct jpeg_error_mgr *kn_jpeg_error_open(struct kn_jpeg_error *e);
_Noreturn void kn_jpeg_stop(struct kn_jpeg_error *e);

#endif
