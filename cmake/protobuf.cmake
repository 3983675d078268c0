# Generates protobuf-c code for every .proto file in proto/ and builds one library from the code. Sources include the
# generated headers by paths such as "tensorflow/core/framework/graph.pb-c.h".
find_program(PROTOC_C protoc-c REQUIRED)
find_program(PROTOC protoc REQUIRED)
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

# gRPC server reflection needs the descriptors of the services and of all files that they import, and the ops
# DecodeProtoV2 and EncodeProto find message types in them.
set(descriptors ${generated_dir}/descriptors)
list(TRANSFORM protos PREPEND ${PROJECT_SOURCE_DIR}/proto/ OUTPUT_VARIABLE proto_paths)
add_custom_command(
  OUTPUT ${descriptors}.c
  COMMAND ${PROTOC} -I ${PROJECT_SOURCE_DIR}/proto --include_imports
          --descriptor_set_out=${descriptors}.bin ${protos}
  COMMAND ${CMAKE_COMMAND} -DIN=${descriptors}.bin -DOUT=${descriptors}.c -DNAME=pb_descriptors
          -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
  DEPENDS ${proto_paths} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
  COMMENT "protoc descriptors")
list(APPEND generated_sources ${descriptors}.c)
add_library(slipway_protobuf STATIC ${generated_sources})
target_include_directories(slipway_protobuf SYSTEM PUBLIC ${generated_dir})
target_link_libraries(slipway_protobuf PUBLIC PkgConfig::PROTOBUF_C)
set_target_properties(slipway_protobuf PROPERTIES POSITION_INDEPENDENT_CODE ON)
