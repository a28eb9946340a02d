# LibTorch by hand-written imported targets: find_package(Torch) of a CUDA wheel demands a CUDA toolkit at configure time.
# In: TRIREME_LIBTORCH, a folder that holds torch/lib (a wheel's site-packages) or lib (an unpacked zip).
# Out: trireme_torch (libtorch_cpu, libc10, includes as SYSTEM), trireme_torch_pch (with its precompiled header), TRIREME_TORCH (the
# folder with lib and include), TRIREME_NVIDIA_LIBRARIES (folders); with TRIREME_PYTHON also trireme_torch_python (libtorch_python)
# and TRIREME_TORCH_VERSION.
if(NOT TRIREME_LIBTORCH)
  set(TRIREME_LIBTORCH ${TRIREME_OWN_LIBTORCH})
endif()
if(EXISTS ${TRIREME_LIBTORCH}/torch/lib/libtorch_cpu.so)
  set(TRIREME_TORCH ${TRIREME_LIBTORCH}/torch)
elseif(EXISTS ${TRIREME_LIBTORCH}/lib/libtorch_cpu.so)
  set(TRIREME_TORCH ${TRIREME_LIBTORCH})
else()
  message(FATAL_ERROR
    "no LibTorch under '${TRIREME_LIBTORCH}'.\n"
    "  ./launch/install puts one there; or point -DTRIREME_LIBTORCH=DIR to a wheel's site-packages or an unpacked\n"
    "  libtorch zip; or configure with -DTRIREME_RUNTIME=OFF to build the planner alone.")
endif()

foreach(_name IN ITEMS c10 torch_cpu)
  add_library(trireme_lib_${_name} SHARED IMPORTED)
  set_target_properties(trireme_lib_${_name} PROPERTIES IMPORTED_LOCATION ${TRIREME_TORCH}/lib/lib${_name}.so)
endforeach()
file(GLOB TRIREME_NVIDIA_LIBRARIES LIST_DIRECTORIES true ${TRIREME_LIBTORCH}/nvidia/*/lib)
set(_rpath ${TRIREME_TORCH}/lib ${TRIREME_NVIDIA_LIBRARIES})
# As seen from bin/, where all that is linked lies: the tree may be moved, or carried to another machine. There, where
# LibTorch is somewhere else, LD_LIBRARY_PATH names it. The NVIDIA wheels may come later than the build.
set(TRIREME_RPATH "")
foreach(_folder IN ITEMS ${TRIREME_TORCH}/lib ${TRIREME_LIBTORCH}/nvidia/cu13/lib ${TRIREME_LIBTORCH}/nvidia/nccl/lib)
  file(RELATIVE_PATH _relative ${CMAKE_RUNTIME_OUTPUT_DIRECTORY} ${_folder})
  list(APPEND TRIREME_RPATH "$ORIGIN/${_relative}")
endforeach()
set(CMAKE_BUILD_RPATH ${TRIREME_RPATH} ${_rpath})

add_library(trireme_torch INTERFACE)
target_include_directories(trireme_torch SYSTEM INTERFACE
  ${TRIREME_TORCH}/include ${TRIREME_TORCH}/include/torch/csrc/api/include)
target_link_libraries(trireme_torch INTERFACE trireme_lib_torch_cpu trireme_lib_c10)
foreach(_path IN LISTS _rpath)
  target_link_options(trireme_torch INTERFACE -Wl,-rpath-link,${_path})
endforeach()
# RPATH, not RUNPATH: it also covers what LibTorch itself needs (libcudart of a CUDA wheel).
target_link_options(trireme_torch INTERFACE -Wl,--disable-new-dtags -Wl,--allow-shlib-undefined)

if(TRIREME_PYTHON)
  file(STRINGS ${TRIREME_TORCH}/version.py _version REGEX "^__version__")
  string(REGEX REPLACE "^[^']*'([^'+]*).*" "\\1" TRIREME_TORCH_VERSION "${_version}")
  add_library(trireme_torch_python SHARED IMPORTED)
  set_target_properties(trireme_torch_python PROPERTIES IMPORTED_LOCATION ${TRIREME_TORCH}/lib/libtorch_python.so)
endif()

# Without the headers of autograd: GCC instantiates again, in every source, the templates that a precompiled header uses, which
# for these takes as long as for all the rest. The few sources that differentiate include them.
trireme_add_pch(trireme_torch_pch HEADERS <ATen/ATen.h> <ATen/core/grad_mode.h> USES trireme_torch)
