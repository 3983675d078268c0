/*
 * The device code of this binary. If the build finds nvcc, it compiles each module to a fatbin
 * and embeds the fatbin in the binary. A fatbin contains code for several architectures.
 */
#ifndef KC_IMAGE_H
#define KC_IMAGE_H

#include "kernels/cuda/driver/gpu.h"

/* Returns the fatbin of a module, or NULL if the binary was built without nvcc. The fatbin is never
 * freed. */
const void *kc_image(enum kc_module module);

#endif
