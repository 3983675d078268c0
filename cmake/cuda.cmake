# Compiles the device code, kernels/cuda/device/*.cu, to fatbins and embeds them in the layer `kernels`, if the CUDA
# toolkit is found. SLIPWAY_CUDA is auto, on (a missing toolkit is an error) or off. Without the toolkit, everything
# else is built, and --gpus reports that the binary has no device code.
set(SLIPWAY_CUDA auto CACHE STRING "Whether to build the code for GPUs: auto, on or off")
if(SLIPWAY_CUDA STREQUAL "off")
  return()
endif()
find_package(CUDAToolkit 12.0 QUIET)
if(NOT CUDAToolkit_NVCC_EXECUTABLE)
  if(SLIPWAY_CUDA STREQUAL "on")
    message(FATAL_ERROR "SLIPWAY_CUDA=on, but the CUDA toolkit (nvcc 12.0 or later) was not found")
  endif()
  message(STATUS "No code for GPUs is built: nvcc 12.0 or later was not found")
  return()
endif()

# Machine code is built for each of these architectures that nvcc supports. Later GPUs use the PTX code, which is built
# for the newest supported architecture.
execute_process(COMMAND ${CUDAToolkit_NVCC_EXECUTABLE} --list-gpu-code OUTPUT_VARIABLE known)
set(SLIPWAY_CUDA_CODE "")
set(oldest "")
foreach(number 75 80 86 89 90 100 120)
  if(known MATCHES "sm_${number}[^0-9]")
    list(APPEND SLIPWAY_CUDA_CODE -gencode arch=compute_${number},code=sm_${number})
    set(newest ${number})
    if(NOT oldest)
      set(oldest ${number})
    endif()
  endif()
endforeach()
list(APPEND SLIPWAY_CUDA_CODE -gencode arch=compute_${newest},code=compute_${newest})
# Builds with sanitizers have only PTX code of the oldest architecture, which every supported GPU can use. Sanitizers do
# not test device code.
if(SLIPWAY_SANITIZE)
  set(SLIPWAY_CUDA_CODE -gencode arch=compute_${oldest},code=compute_${oldest})
endif()

# Kernels of these files use fused multiply-adds. All other kernels round as on the CPU.
set(SLIPWAY_CUDA_FUSED attention conv depthwise matmul rnn)
set(folder ${CMAKE_BINARY_DIR}/fatbins)
file(MAKE_DIRECTORY ${folder})
file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/kernels/cuda/device/*.cu)
set(fatbins "")
foreach(source ${sources})
  get_filename_component(module ${source} NAME_WE)
  set(fatbin ${folder}/${module}.fatbin)
  set(fused false)
  if(module IN_LIST SLIPWAY_CUDA_FUSED)
    set(fused true)
  endif()
  add_custom_command(
    OUTPUT ${fatbin}
    COMMAND ${CUDAToolkit_NVCC_EXECUTABLE} -fatbin -O3 --fmad=${fused} --compress-mode=size -I${PROJECT_SOURCE_DIR}
            ${SLIPWAY_CUDA_CODE} -Werror all-warnings -MD -MF ${fatbin}.d -o ${fatbin} ${source}
    DEPENDS ${source}
    DEPFILE ${fatbin}.d
    COMMENT "Compiling ${module}.cu for GPUs"
    VERBATIM)
  list(APPEND fatbins ${fatbin})
endforeach()
add_custom_target(slipway_fatbins DEPENDS ${fatbins})
add_dependencies(kernels slipway_fatbins)
set_source_files_properties(kernels/cuda/driver/image.c PROPERTIES COMPILE_DEFINITIONS KC_FATBINS="${folder}"
                            OBJECT_DEPENDS "${fatbins}")
