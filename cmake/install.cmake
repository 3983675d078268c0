# libslipway is the session runtime as a shared library, installed with its headers and a pkg-config
# file.
include(GNUInstallDirs)
add_library(libslipway SHARED cmake/slipway.map)
set_target_properties(libslipway PROPERTIES OUTPUT_NAME slipway LINKER_LANGUAGE CXX
                      VERSION ${PROJECT_VERSION} SOVERSION 0)
target_link_libraries(libslipway PRIVATE -Wl,--whole-archive runtime base kernels
                      -Wl,--no-whole-archive)
target_link_options(libslipway PRIVATE
                    -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/slipway.map)
set_target_properties(libslipway PROPERTIES
                      LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/slipway.map)

add_executable(run_model runtime/examples/run_model.c)
target_include_directories(run_model PRIVATE ${PROJECT_SOURCE_DIR})
target_link_libraries(run_model PRIVATE libslipway)

# The pkg-config file gives the prefix relative to its own folder, so that it stays valid after `cmake --install
# --prefix`.
file(RELATIVE_PATH SLIPWAY_PC_TO_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" SLIPWAY_PC_TO_PREFIX ${SLIPWAY_PC_TO_PREFIX})
configure_file(cmake/slipway.pc.in slipway.pc @ONLY)
install(TARGETS slipway libslipway)
install(FILES ${PROJECT_BINARY_DIR}/slipway.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
# The installed headers: models and sessions, the types of their options, the interface of ops and kernels, and every
# header that these include. tests/lint/headers.py compiles each header alone. All other headers are internal.
set(SLIPWAY_HEADERS kernels/kernels.h)
foreach(name arena check log machine span status)
  list(APPEND SLIPWAY_HEADERS runtime/base/${name}.h)
endforeach()
foreach(name api/describe core/buffer core/device core/graph core/infer core/kernel core/object core/op
             core/pool core/registry core/run core/schema core/str core/tensor core/tuning core/types
             exec/parallel exec/trace files/checkpoint files/file_access files/saved_model select/autotune
             session/accelerators session/compiler session/resource session/session)
  list(APPEND SLIPWAY_HEADERS runtime/${name}.h)
endforeach()
foreach(header ${SLIPWAY_HEADERS})
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/slipway/${folder})
endforeach()
# libslipway_client is installed with its header and its pkg-config file.
configure_file(clients/c/slipway-client.pc.in slipway-client.pc @ONLY)
install(TARGETS libslipway_client)
install(FILES ${PROJECT_BINARY_DIR}/slipway-client.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES clients/c/slipway_client.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
