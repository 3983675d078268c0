/* Embeds the device code (image.h). The build sets KC_FATBINS to the path of the folder that holds
 * the fatbins. */
#include "kernels/cuda/driver/image.h"

#ifdef KC_FATBINS
#define X(module, is_cooperative)                                                                  \
    __asm__(".section .rodata.kc_" #module "_fatbin,\"a\",@progbits\n"                             \
            ".balign 64\n"                                                                         \
            "kc_" #module "_fatbin:\n"                                                             \
            ".incbin \"" KC_FATBINS "/" #module ".fatbin\"\n"                                      \
            ".previous\n");                                                                        \
    extern const char kc_##module##_fatbin[];
KC_MODULES(X)
#undef X
#endif

const void *kc_image(enum kc_module module)
{
#ifdef KC_FATBINS
    static const char *const image[KC_N_MODULES] = {
#define X(name, is_cooperative) kc_##name##_fatbin,
        KC_MODULES(X)
#undef X
    };
    return image[module];
#else
    (void)module;
    return NULL;
#endif
}
