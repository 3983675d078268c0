# slipway_layer(NAME FOLDER USES ...) adds a static library of the .c and .cc files in FOLDER and its subfolders. It
# leaves out main programs, examples, and the files of a layer whose folder is inside FOLDER. Headers are included by
# their paths from the repository's root.
function(slipway_layer name folder)
  cmake_parse_arguments(arg "" "" "USES" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.c
       ${PROJECT_SOURCE_DIR}/${folder}/*.cc)
  list(FILTER sources EXCLUDE REGEX "/(main|example)[^/]*\\.c$")
  if(folder STREQUAL "runtime")
    list(FILTER sources EXCLUDE REGEX "/runtime/(base|examples)/")
  endif()
  add_library(${name} STATIC ${sources})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR})
  target_compile_options(${name} PRIVATE ${SLIPWAY_WARNINGS})
  target_link_libraries(${name} PUBLIC ${arg_USES})
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
endfunction()
