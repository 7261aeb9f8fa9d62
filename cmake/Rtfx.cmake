# Functions that compile rtfx's own libraries and programs.

# GCC 12 wrongly reports overflows in copies of its own std::string (GCC bugs 105329, 105651).
set(RTFX_WARNINGS -Wall -Wextra -Wpedantic -Wno-unused-parameter -Wno-array-bounds
  -Wno-stringop-overflow -Wno-stringop-overread -Wno-restrict)
if(RTFX_WERROR)
  list(APPEND RTFX_WARNINGS -Werror)
endif()
if(RTFX_SANITIZE)
  add_compile_options(-fsanitize=${RTFX_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${RTFX_SANITIZE})
endif()
if(RTFX_TIDY)
  find_program(CLANG_TIDY clang-tidy REQUIRED)
endif()

function(rtfx_executable name)
  target_compile_options(${name} PRIVATE ${RTFX_WARNINGS})
  get_target_property(type ${name} TYPE)
  if(type STREQUAL EXECUTABLE)  # CMake's own -fPIE would shut out the precompiled header
    set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${name} PRIVATE -fPIC)
  endif()
  if(RTFX_TIDY)
    set_target_properties(${name} PROPERTIES CXX_CLANG_TIDY "${CLANG_TIDY};--quiet")
  endif()
endfunction()

# LibTorch's include folder holds an fmt of another version, so the folder of our fmt comes first.
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/fmt)
file(CREATE_LINK ${RTFX_FMT_INCLUDE}/fmt ${CMAKE_BINARY_DIR}/fmt/fmt SYMBOLIC)
add_library(rtfx_fmt INTERFACE)
target_include_directories(rtfx_fmt SYSTEM INTERFACE ${CMAKE_BINARY_DIR}/fmt)
target_link_libraries(rtfx_fmt INTERFACE fmt::fmt)

# One precompiled header of LibTorch and the standard library, shared by all targets that use them.
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/torch_pch.cpp CONTENT "")
add_library(rtfx_torch_pch OBJECT ${CMAKE_BINARY_DIR}/torch_pch.cpp)
rtfx_executable(rtfx_torch_pch)  # GCC takes a precompiled header only under the same flags
target_link_libraries(rtfx_torch_pch PUBLIC rtfx_fmt torch::torch nlohmann_json::nlohmann_json)
target_precompile_headers(rtfx_torch_pch PRIVATE <ATen/ATen.h> <fmt/format.h> <nlohmann/json.hpp>
  <algorithm> <filesystem> <functional> <map> <memory> <optional> <string> <vector>)

# rtfx_library(folder [TORCH] [TOGETHER] LINK ...) makes the target rtfx_<folder> of every source below
# the folder. TOGETHER compiles six sources as one, since templates of LibTorch and of the JSON library
# take half of the compile time of most sources. For the harness it halves the CPU time, from 306 s to
# 154 s. Names in the unnamed namespaces of such a library must differ.
# The targets are OBJECT libraries, because decoders register themselves from static initialisers, which
# a linker would leave out of an archive.
function(rtfx_library folder)
  cmake_parse_arguments(ARG "TORCH;TOGETHER" "" "LINK" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${folder}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "/main\\.cpp$")
  add_library(rtfx_${folder} OBJECT ${sources})
  target_include_directories(rtfx_${folder} PUBLIC ${CMAKE_SOURCE_DIR})
  target_link_libraries(rtfx_${folder} PUBLIC ${ARG_LINK})
  if(ARG_TORCH)
    target_link_libraries(rtfx_${folder} PUBLIC torch::torch)
    if(NOT RTFX_TIDY)  # clang cannot read GCC's precompiled header
      target_precompile_headers(rtfx_${folder} REUSE_FROM rtfx_torch_pch)
    endif()
  endif()
  # clang-tidy takes longest for headers that all sources include. Each `make test` runs it on the few sources without
  # LibTorch, so these are joined as well.
  if((RTFX_TIDY AND NOT ARG_TORCH) OR (ARG_TOGETHER AND NOT RTFX_TIDY))
    set_target_properties(rtfx_${folder} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 6)
  endif()
  rtfx_executable(rtfx_${folder})
endfunction()
