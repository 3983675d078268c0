# Generates protobuf-c code from every .proto under proto/, as one library. Messages are included
# as "tensorflow/core/framework/graph.pb-c.h".
find_program(PROTOC_C protoc-c REQUIRED)
file(GLOB_RECURSE protos RELATIVE ${PROJECT_SOURCE_DIR}/proto CONFIGURE_DEPENDS
     ${PROJECT_SOURCE_DIR}/proto/*.proto)
set(generated_dir ${PROJECT_BINARY_DIR}/proto)
set(generated_sources)
foreach(proto ${protos})
  string(REPLACE ".proto" ".pb-c" stem ${proto})
  set(source ${PROJECT_SOURCE_DIR}/proto/${proto})
  add_custom_command(
    OUTPUT ${generated_dir}/${stem}.c ${generated_dir}/${stem}.h
    COMMAND ${PROTOC_C} --c_out=${generated_dir} -I ${PROJECT_SOURCE_DIR}/proto ${source}
    DEPENDS ${source}
    COMMENT "protoc-c ${proto}")
  list(APPEND generated_sources ${generated_dir}/${stem}.c)
endforeach()
file(MAKE_DIRECTORY ${generated_dir})
add_library(slipway_protobuf STATIC ${generated_sources})
target_include_directories(slipway_protobuf SYSTEM PUBLIC ${generated_dir})
target_link_libraries(slipway_protobuf PUBLIC PkgConfig::PROTOBUF_C)
set_target_properties(slipway_protobuf PROPERTIES POSITION_INDEPENDENT_CODE ON)
