# libslipway_client, the client library for C, and its example. The command-line client also uses
# the library.
slipway_layer(client clients/c USES base proto grpc_core)
add_library(libslipway_client SHARED clients/c/slipway_client.map)
set_target_properties(libslipway_client PROPERTIES OUTPUT_NAME slipway_client LINKER_LANGUAGE C
                      VERSION ${PROJECT_VERSION} SOVERSION 0
                      LINK_DEPENDS ${PROJECT_SOURCE_DIR}/clients/c/slipway_client.map)
target_link_libraries(libslipway_client PRIVATE -Wl,--whole-archive client -Wl,--no-whole-archive)
target_link_options(libslipway_client PRIVATE -Wl,--as-needed
                    -Wl,--version-script=${PROJECT_SOURCE_DIR}/clients/c/slipway_client.map)

add_executable(slipway_example clients/c/example.c)
target_include_directories(slipway_example PRIVATE clients/c)
target_compile_options(slipway_example PRIVATE ${SLIPWAY_WARNINGS})
target_link_libraries(slipway_example PRIVATE libslipway_client)

# the subcommands of slipway that call a server
slipway_layer(cli clients/cli USES client http PkgConfig::JANSSON PkgConfig::OPENSSL PkgConfig::ZLIB m)
