# op_runner runs ops in Slipway, for tests/conformance/run.py and others. The fuzz targets' build has it too, so that
# tests/opfuzz/fuzz.py sees which code a case reaches.
set(op_runner_sources conformance/op_runner.c opfuzz/coverage.c support/accelerated.c support/test_device.c
                      gpu/reference_blas.c gpu/reference_dnn.c)
list(TRANSFORM op_runner_sources PREPEND ${PROJECT_SOURCE_DIR}/tests/)
add_executable(op_runner ${op_runner_sources})
target_compile_options(op_runner PRIVATE ${SLIPWAY_WARNINGS})
target_link_libraries(op_runner PRIVATE kernels)
# op_runner wraps rt_run_options_check, in order to measure the time between two deadline checks.
target_link_options(op_runner PRIVATE
                    -Wl,--wrap=rt_run_options_check,--wrap=rt_session_new,--wrap=kc_blas_open,--wrap=kc_dnn_open)
