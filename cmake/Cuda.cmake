# The CUDA compiler (RTFX_CUDA_ROOTS of LibTorch.cmake, or CUDACXX). Only .cu files need it; they see
# no LibTorch header, so that they compile in seconds.
if(NOT CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90)
endif()
if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  find_program(RTFX_NVCC nvcc REQUIRED HINTS ${RTFX_CUDA_ROOTS} PATH_SUFFIXES bin)
  set(CMAKE_CUDA_COMPILER ${RTFX_NVCC})
  # CMake tries it out by linking a program. nvcc looks for libraries in lib64; the wheels have a lib.
  get_filename_component(_nvcc_folder ${RTFX_NVCC} DIRECTORY)
  set(ENV{LIBRARY_PATH} ${_nvcc_folder}/../lib:$ENV{LIBRARY_PATH})
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_RUNTIME_LIBRARY None)  # LibTorch's own, below
enable_language(CUDA)
if(CCACHE)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${RTFX_LAUNCHER})
endif()

find_library(RTFX_CUDART NAMES libcudart.so.13 REQUIRED
  HINTS ${RTFX_CUDA_ROOTS} PATH_SUFFIXES lib lib64)
find_library(RTFX_CUBLASLT NAMES libcublasLt.so.13 REQUIRED
  HINTS ${RTFX_CUDA_ROOTS} PATH_SUFFIXES lib lib64)
target_link_libraries(torch::torch INTERFACE ${RTFX_CUDART} ${RTFX_CUBLASLT})

# rtfx_cuda_library(folder): target rtfx_<folder>_cuda of every .cu below the folder.
function(rtfx_cuda_library folder)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${folder}/*.cu)
  add_library(rtfx_${folder}_cuda OBJECT ${sources})
  target_include_directories(rtfx_${folder}_cuda PUBLIC ${CMAKE_SOURCE_DIR})
  target_compile_options(rtfx_${folder}_cuda PRIVATE -Xcompiler=-Wall,-Wextra)
  if(RTFX_WERROR)
    target_compile_options(rtfx_${folder}_cuda PRIVATE -Werror=all-warnings)
  endif()
endfunction()
