/*
 * The error handler of libjpeg's callers. libjpeg reports an error by a call that must not return,
 * so the caller returns to its own setjmp, and frees libjpeg's structures there.
 *
 * Threads: a handler belongs to one call of a codec.
 */
#ifndef KN_IMAGE_JPEG_H
#define KN_IMAGE_JPEG_H

#include <setjmp.h>
#include <stdio.h> /* jpeglib.h needs FILE and size_t */

#include <jpeglib.h>

struct kn_jpeg_error {
    struct jpeg_error_mgr lib; /* the first member, because libjpeg returns a pointer to it */
    jmp_buf jump;
};
/* Makes `e` drop messages and return to e->jump, which the caller must set before it calls libjpeg.
 * Returns the pointer for libjpeg's `err`. */
struct jpeg_error_mgr *kn_jpeg_error_open(struct kn_jpeg_error *e);
/* Returns to e->jump. */
_Noreturn void kn_jpeg_stop(struct kn_jpeg_error *e);

#endif
