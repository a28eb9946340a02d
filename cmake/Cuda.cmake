# What libtrireme_cuda.so is made of: headers and libraries of CUDA and NCCL, out of the NVIDIA wheels beside LibTorch or,
# where those are absent, out of a toolkit. Host code only: no nvcc. Nothing else in the tree links them.
# In: TRIREME_CUDA. Out: TRIREME_HAS_CUDA and, if on, trireme_nvidia_headers (to compile) and trireme_nvidia (to link).
set(TRIREME_HAS_CUDA OFF)
if(NOT TRIREME_CUDA)
  return()
endif()

set(_wheel ${TRIREME_LIBTORCH}/nvidia)
set(_toolkit $ENV{CUDA_HOME} $ENV{CUDA_PATH} /usr/local/cuda /opt/cuda)
# A folder counts only with everything that the header includes: the runtime's wheel lacks crt/, which is one of its own.
find_path(TRIREME_CUDA_INCLUDE crt/host_defines.h PATHS ${_wheel}/cu13 ${_toolkit} PATH_SUFFIXES include NO_DEFAULT_PATH)
find_path(TRIREME_NCCL_INCLUDE nccl.h PATHS ${_wheel}/nccl ${_toolkit} /usr PATH_SUFFIXES include NO_DEFAULT_PATH)
find_file(TRIREME_CUDART_LIBRARY NAMES libcudart.so.13 libcudart.so.12
  PATHS ${_wheel}/cu13 ${_wheel}/cuda_runtime ${TRIREME_TORCH} ${_toolkit} PATH_SUFFIXES lib lib64 NO_DEFAULT_PATH)
find_file(TRIREME_NVRTC_LIBRARY NAMES libnvrtc.so.13 libnvrtc.so.12
  PATHS ${_wheel}/cu13 ${_wheel}/cuda_nvrtc ${TRIREME_TORCH} ${_toolkit} PATH_SUFFIXES lib lib64 NO_DEFAULT_PATH)
find_file(TRIREME_NCCL_LIBRARY NAMES libnccl.so.2
  PATHS ${_wheel}/nccl ${TRIREME_TORCH} ${_toolkit} /usr PATH_SUFFIXES lib lib64 lib/x86_64-linux-gnu NO_DEFAULT_PATH)

set(_missing "")
foreach(_part IN ITEMS TRIREME_CUDA_INCLUDE TRIREME_NCCL_INCLUDE TRIREME_CUDART_LIBRARY TRIREME_NVRTC_LIBRARY
    TRIREME_NCCL_LIBRARY)
  if(NOT ${_part})
    list(APPEND _missing ${_part})
  endif()
endforeach()
foreach(_name IN ITEMS c10_cuda torch_cuda)
  if(NOT EXISTS ${TRIREME_TORCH}/lib/lib${_name}.so)
    list(APPEND _missing lib${_name}.so)
  endif()
endforeach()
if(NOT _missing)  # cudaDeviceProp and others change between major versions
  file(STRINGS ${TRIREME_CUDA_INCLUDE}/cuda_runtime_api.h _version REGEX "^#define CUDART_VERSION")
  string(REGEX MATCH "[0-9]+" _version "${_version}")
  math(EXPR _major "${_version} / 1000")
  if(NOT TRIREME_CUDART_LIBRARY MATCHES "\\.${_major}$")
    list(APPEND _missing "headers of the CUDA version of ${TRIREME_CUDART_LIBRARY} (${TRIREME_CUDA_INCLUDE} is ${_major})")
  endif()
endif()
if(_missing)
  list(JOIN _missing ", " _missing)
  set(_text "not found for libtrireme_cuda.so: ${_missing}. TRIREME_CUDA=1 ./launch/install fetches the NVIDIA wheels; CUDA_HOME names a toolkit")
  if(TRIREME_CUDA STREQUAL "AUTO")
    message(STATUS "no CUDA part: ${_text}")
    return()
  endif()
  message(FATAL_ERROR "TRIREME_CUDA=ON, but ${_text}.")
endif()
set(TRIREME_HAS_CUDA ON)
message(STATUS "CUDA part: headers ${TRIREME_CUDA_INCLUDE}, NCCL ${TRIREME_NCCL_INCLUDE}")

add_library(trireme_nvidia_headers INTERFACE)
target_include_directories(trireme_nvidia_headers SYSTEM INTERFACE ${TRIREME_CUDA_INCLUDE} ${TRIREME_NCCL_INCLUDE})

# No symbol refers to most of libtorch_cuda: its operators register themselves when it is loaded. What it needs itself is
# not asked for here: a machine that only builds may lack it.
add_library(trireme_nvidia INTERFACE)
target_link_libraries(trireme_nvidia INTERFACE
  -Wl,--push-state,--no-as-needed ${TRIREME_TORCH}/lib/libtorch_cuda.so ${TRIREME_TORCH}/lib/libc10_cuda.so
  ${TRIREME_CUDART_LIBRARY} ${TRIREME_NVRTC_LIBRARY} ${TRIREME_NCCL_LIBRARY} -Wl,--pop-state)
