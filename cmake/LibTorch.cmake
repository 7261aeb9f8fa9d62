# Makes the target torch::torch from a LibTorch folder (RTFX_LIBTORCH, by default the PyPI wheel in
# .venv).
#
# The wheel's own TorchConfig.cmake wants a whole CUDA toolkit with a compiler even where only its
# C++ interface is used. The layout of the wheel is fixed, so the libraries are named here.
file(GLOB _wheel_torch ${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages/torch)
set(RTFX_LIBTORCH "${_wheel_torch}" CACHE PATH "Folder of LibTorch (with include/ and lib/)")
if(NOT EXISTS ${RTFX_LIBTORCH}/lib/libtorch.so)
  message(FATAL_ERROR "LibTorch not found at '${RTFX_LIBTORCH}'. `make setup` installs it into "
    ".venv; or give -DRTFX_LIBTORCH=DIR (make LIBTORCH=DIR).")
endif()

# CUDA's headers, run-time library and compiler are looked for beside LibTorch, then in the wheels of
# .venv, then in a toolkit. The wheels have one pinned version.
file(GLOB _wheel_cuda ${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages/nvidia/cu13)
set(RTFX_CUDA_ROOTS ${RTFX_LIBTORCH}/../nvidia/cu13 ${_wheel_cuda} /usr/local/cuda)
find_path(RTFX_CUDA_INCLUDE cuda_runtime_api.h REQUIRED
  HINTS ${RTFX_CUDA_ROOTS} PATH_SUFFIXES include)
find_path(RTFX_NVTX_INCLUDE nvtx3/nvtx3.hpp REQUIRED HINTS ${RTFX_CUDA_ROOTS} PATH_SUFFIXES include)
# Only the declarations are needed, since `rtfx profile` loads libcupti at run time if there is one.
find_path(RTFX_CUPTI_INCLUDE cupti.h REQUIRED
  HINTS ${RTFX_CUDA_ROOTS} PATH_SUFFIXES include extras/CUPTI/include)
file(GLOB _wheel_cuda_libs ${RTFX_LIBTORCH}/../nvidia/*/lib)

add_library(torch::torch INTERFACE IMPORTED)
target_include_directories(torch::torch SYSTEM INTERFACE
  ${RTFX_LIBTORCH}/include ${RTFX_LIBTORCH}/include/torch/csrc/api/include ${RTFX_CUDA_INCLUDE})
# LibTorch is a release build, and some of its classes have other members without NDEBUG.
target_compile_definitions(torch::torch INTERFACE NDEBUG)
# Loading these libraries takes nearly all of the time and memory of `rtfx --version`. `perf record` shows page faults of
# relocations, and constructors of libtorch_cpu, which run before main().
# libtorch_cuda registers the CUDA kernels when it is loaded, and nothing refers to it by symbol. So --no-as-needed keeps it.
# libstdc++ comes first, because libtorch.so exports parts of std::filesystem of its own, and its
# remove_all crashes.
target_link_libraries(torch::torch INTERFACE
  -Wl,--no-as-needed stdc++ ${RTFX_LIBTORCH}/lib/libtorch.so ${RTFX_LIBTORCH}/lib/libtorch_cpu.so
  ${RTFX_LIBTORCH}/lib/libtorch_cuda.so ${RTFX_LIBTORCH}/lib/libc10_cuda.so -Wl,--as-needed
  ${RTFX_LIBTORCH}/lib/libc10.so)
foreach(_dir ${_wheel_cuda_libs})
  target_link_options(torch::torch INTERFACE -Wl,-rpath-link,${_dir})
endforeach()
