# Finds the CUDA compiler in RTFX_CUDA_ROOTS of LibTorch.cmake, or takes CUDACXX. Only .cu files need
# it. They include no LibTorch header, so that they compile in seconds.
if(NOT CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90)
endif()
if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  find_program(RTFX_NVCC nvcc REQUIRED HINTS ${RTFX_CUDA_ROOTS} PATH_SUFFIXES bin)
  set(CMAKE_CUDA_COMPILER ${RTFX_NVCC})
  # CMake tries out the compiler by linking a program. nvcc looks for libraries in lib64, but the wheels
  # have them in lib.
  get_filename_component(_nvcc_folder ${RTFX_NVCC} DIRECTORY)
  set(ENV{LIBRARY_PATH} ${_nvcc_folder}/../lib:$ENV{LIBRARY_PATH})
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_RUNTIME_LIBRARY None)  # LibTorch's own is linked below
enable_language(CUDA)
if(CCACHE)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${RTFX_LAUNCHER})
endif()

find_library(RTFX_CUDART NAMES libcudart.so.13 REQUIRED
  HINTS ${RTFX_CUDA_ROOTS} PATH_SUFFIXES lib lib64)
find_library(RTFX_CUBLASLT NAMES libcublasLt.so.13 REQUIRED
  HINTS ${RTFX_CUDA_ROOTS} PATH_SUFFIXES lib lib64)
target_link_libraries(torch::torch INTERFACE ${RTFX_CUDART} ${RTFX_CUBLASLT})

# CUTLASS, for matrix products that compute an activation too. It has headers only, which a wheel in
# .venv holds.
file(GLOB _wheel_cutlass ${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages/cutlass_library/source/include)
find_path(RTFX_CUTLASS_INCLUDE cutlass/cutlass.h HINTS ${_wheel_cutlass})
if(NOT RTFX_CUTLASS_INCLUDE)
  message(FATAL_ERROR "CUTLASS's headers not found. `make setup` installs them into .venv; or give "
    "-DRTFX_CUTLASS_INCLUDE=DIR, the folder with cutlass/cutlass.h (CUTLASS 4.2).")
endif()

function(rtfx_cuda_objects name)
  add_library(${name} OBJECT ${ARGN})
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR})
  target_compile_options(${name} PRIVATE -Xcompiler=-Wall,-Wextra)
  if(RTFX_WERROR)
    target_compile_options(${name} PRIVATE -Werror=all-warnings)
  endif()
endfunction()

# Makes objects for GPUs of compute capability 9.0 alone, with CUTLASS. Other GPUs lack their
# instructions (wgmma), and later GPUs cannot run them from PTX. So callers use other kernels there.
function(rtfx_sm90a_objects name)
  rtfx_cuda_objects(${name} ${ARGN})
  set_target_properties(${name} PROPERTIES CUDA_ARCHITECTURES 90a-real)
  target_include_directories(${name} SYSTEM PRIVATE ${RTFX_CUTLASS_INCLUDE})
  target_compile_options(${name} PRIVATE --expt-relaxed-constexpr)
endfunction()

# rtfx_cuda_library(folder) makes the target rtfx_<folder>_cuda of every .cu below the folder. Programs
# that link it also get the objects of its *_sm90a.cu.
function(rtfx_cuda_library folder)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${folder}/*.cu)
  set(sm90a ${sources})
  list(FILTER sources EXCLUDE REGEX "_sm90a\\.cu$")
  list(FILTER sm90a INCLUDE REGEX "_sm90a\\.cu$")
  rtfx_cuda_objects(rtfx_${folder}_cuda ${sources})
  if(sm90a)
    rtfx_sm90a_objects(rtfx_${folder}_sm90a ${sm90a})
    target_sources(rtfx_${folder}_cuda INTERFACE $<TARGET_OBJECTS:rtfx_${folder}_sm90a>)
  endif()
endfunction()
