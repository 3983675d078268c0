/* The precision in which a GPU multiplies and convolves float32 tensors. */
#ifndef KC_PRECISION_H
#define KC_PRECISION_H

enum kc_precision {
    /* Inputs are rounded to TF32, whose significand has 11 bits, and sums are float32. TensorFlow
     * does the same on GPUs by default. GPUs before compute capability 8.0 use float32 instead. */
    KC_TF32,
    KC_FLOAT32, /* no rounding besides that of float32 */
    KC_FP16,    /* tensors are float16, and sums are float32 */
    KC_BF16,    /* tensors are bfloat16, and sums are float32 */
    KC_N_PRECISIONS,
};

#endif
