/*
 * The part of cuDNN's backend API that Slipway calls, declared here so that Slipway can be built
 * without cuDNN. The functions are loaded from libcudnn.so.9 at run time (dnn_library.h).
 *
 * The names of the functions and the values are those of NVIDIA's cudnn_graph.h. Where cuDNN's
 * headers are found, tests/gpu/check_dnn_api.c compiles a call of each function with the arguments
 * declared here, and compares the constants.
 */
#ifndef KC_DNN_API_H
#define KC_DNN_API_H

#include <stddef.h>
#include <stdint.h>

/* The oldest version that can be used: 10000 times the major version plus 100 times the minor
 * version. Version 9.8 introduced DNN_DEVICE, without which no plan can be made. */
#define DNN_VERSION 90800

struct cudnnContext;
struct CUstream_st;

/* Every function that returns int returns DNN_OK or another status, for which GetErrorString
 * returns the name. */
enum dnn_status { DNN_OK = 0 };

enum dnn_kind {
    DNN_POINTWISE = 0,
    DNN_CONVOLUTION = 1,
    DNN_ENGINE = 2,
    DNN_CONFIG = 3, /* an engine with its settings */
    DNN_HEURISTIC = 4,
    DNN_PLAN = 5,
    DNN_CONVOLUTION_OPERATION = 10,
    DNN_POINTWISE_OPERATION = 13,
    DNN_GRAPH = 15,
    DNN_VARIANT_PACK = 16, /* the addresses that a plan reads and writes */
    DNN_TENSOR = 17,
    DNN_DEVICE = 38, /* the properties of a GPU */
};

/* the types of an attribute's values */
enum dnn_type {
    DNN_TYPE_HANDLE = 0,
    DNN_TYPE_DATA_TYPE = 1,
    DNN_TYPE_BOOL = 2, /* a C bool */
    DNN_TYPE_INT64 = 3,
    DNN_TYPE_FLOAT = 4,
    DNN_TYPE_POINTER = 6,
    DNN_TYPE_CONVOLUTION_MODE = 7,
    DNN_TYPE_HEURISTIC_MODE = 8,
    DNN_TYPE_NUMERICAL_NOTE = 11,
    DNN_TYPE_POINTWISE_MODE = 14,
    DNN_TYPE_DESCRIPTOR = 15,
    DNN_TYPE_BEHAVIOR_NOTE = 19,
    DNN_TYPE_CHAR = 24,
};

enum dnn_attribute {
    DNN_POINTWISE_MODE = 0,
    DNN_POINTWISE_PRECISION = 1,
    DNN_CONVOLUTION_COMPUTE_TYPE = 100,
    DNN_CONVOLUTION_MODE = 101,
    DNN_CONVOLUTION_DILATIONS = 102,
    DNN_CONVOLUTION_STRIDES = 103,
    DNN_CONVOLUTION_POST_PADDINGS = 104,
    DNN_CONVOLUTION_PRE_PADDINGS = 105,
    DNN_CONVOLUTION_SPATIAL_DIMS = 106,
    DNN_HEURISTIC_MODE = 200,
    DNN_HEURISTIC_GRAPH = 201,
    DNN_HEURISTIC_RESULTS = 202,
    DNN_HEURISTIC_DEVICE = 204,
    DNN_CONFIG_ENGINE = 300,
    DNN_PLAN_CONFIG = 401,
    DNN_PLAN_WORKSPACE_BYTES = 402,
    DNN_PLAN_DEVICE = 407,
    DNN_CONVOLUTION_OPERATION_ALPHA = 700,
    DNN_CONVOLUTION_OPERATION_BETA = 701,
    DNN_CONVOLUTION_OPERATION_CONVOLUTION = 702,
    DNN_CONVOLUTION_OPERATION_W = 703,
    DNN_CONVOLUTION_OPERATION_X = 704,
    DNN_CONVOLUTION_OPERATION_Y = 705,
    DNN_POINTWISE_OPERATION_POINTWISE = 750,
    DNN_POINTWISE_OPERATION_X = 751,
    DNN_POINTWISE_OPERATION_B = 752,
    DNN_POINTWISE_OPERATION_Y = 753,
    DNN_GRAPH_OPERATIONS = 801,
    DNN_TENSOR_ALIGNMENT = 900,
    DNN_TENSOR_TYPE = 901,
    DNN_TENSOR_DIMENSIONS = 902,
    DNN_TENSOR_STRIDES = 903,
    DNN_TENSOR_ID = 906,
    DNN_TENSOR_IS_VIRTUAL = 907, /* the tensor is never in memory */
    DNN_PACK_IDS = 1000,
    DNN_PACK_POINTERS = 1001,
    DNN_PACK_WORKSPACE = 1003,
    DNN_ENGINE_INDEX = 1301,
    DNN_ENGINE_NUMERICAL_NOTES = 1303,
    DNN_ENGINE_BEHAVIOR_NOTES = 1305,
    DNN_DEVICE_HANDLE = 2701,
    DNN_DEVICE_JSON = 2702,
};

enum dnn_data_type { DNN_FLOAT = 0, DNN_HALF = 2, DNN_BFLOAT16 = 9 };
enum dnn_pointwise_mode { DNN_ADD = 0, DNN_RELU = 100 };
/* DNN_CROSS_CORRELATION does not mirror the filter. */
enum dnn_convolution_mode { DNN_CROSS_CORRELATION = 1 };
enum dnn_heuristic_mode { DNN_HEURISTIC_FALLBACK = 2, DNN_HEURISTIC_A = 3 };

enum dnn_numerical_note {
    DNN_NOTE_TENSOR_CORE = 0,
    DNN_NOTE_DOWN_CONVERT = 1,
    DNN_NOTE_REDUCED_REDUCTION = 2, /* sums are less precise than float32 */
    DNN_NOTE_FFT = 3,
    DNN_NOTE_NONDETERMINISTIC = 4,
    DNN_NOTE_WINOGRAD = 5,
    DNN_NOTE_WINOGRAD_4X4 = 6,
    DNN_NOTE_WINOGRAD_6X6 = 7,
    DNN_NOTE_WINOGRAD_13X13 = 8,
    DNN_NOTE_STRICT_NAN = 9, /* every operation propagates NaN */
    DNN_N_NOTES = 10,
};
enum dnn_behavior_note {
    DNN_NOTE_RUNTIME_COMPILATION = 0,
    DNN_N_BEHAVIOR_NOTES = 5,
};

/* X(result, name without "cudnn", parameters, arguments) for each function of the API. */
#define DNN_FUNCTIONS(X)                                                                           \
    X(size_t, GetVersion, (void), ())                                                              \
    X(const char *, GetErrorString, (int status), (status))                                        \
    X(int, Create, (struct cudnnContext * *handle), (handle))                                      \
    X(int, Destroy, (struct cudnnContext * handle), (handle))                                      \
    X(int, SetStream, (struct cudnnContext * handle, struct CUstream_st * stream),                 \
      (handle, stream))                                                                            \
    X(int, BackendCreateDescriptor, (int kind, void **descriptor), (kind, descriptor))             \
    X(int, BackendDestroyDescriptor, (void *descriptor), (descriptor))                             \
    X(int, BackendFinalize, (void *descriptor), (descriptor))                                      \
    X(int, BackendSetAttribute,                                                                    \
      (void *descriptor, int attribute, int type, int64_t n, const void *values),                  \
      (descriptor, attribute, type, n, values))                                                    \
    X(int, BackendGetAttribute,                                                                    \
      (void *descriptor, int attribute, int type, int64_t capacity, int64_t *n, void *values),     \
      (descriptor, attribute, type, capacity, n, values))                                          \
    X(int, BackendExecute, (struct cudnnContext * handle, void *plan, void *pack),                 \
      (handle, plan, pack))

/* The type of cudnnGetLastErrorString, which writes the message of this thread's last error. */
typedef void dnn_get_last_error(char *text, size_t bytes);

#endif
