# `cmake --install BUILD --prefix DIR` writes a tree that can be moved: bin/ with the programs and the libraries that they load,
# libtorch/ with the LibTorch of the build, lib/ with HiGHS. Components: `programs` (bin/ and lib/) and `libtorch`.
# A Python package (SKBUILD) is installed by src/python instead.
set(TRIREME_INSTALL_RPATH $ORIGIN/../libtorch/torch/lib $ORIGIN/../libtorch/nvidia/cu13/lib $ORIGIN/../libtorch/nvidia/nccl/lib $ORIGIN/../lib)
if(NOT SKBUILD)
  set(CMAKE_INSTALL_RPATH ${TRIREME_INSTALL_RPATH})
endif()

# After every target is there.
function(trireme_install)
  if(SKBUILD)
    return()
  endif()
  foreach(target IN ITEMS trireme trireme-runtime trireme_mpi trireme_cuda)
    if(TARGET ${target})
      install(TARGETS ${target} COMPONENT programs RUNTIME DESTINATION bin LIBRARY DESTINATION bin)  # beside one another, as in the build folder
    endif()
  endforeach()
  if(TRIREME_HAS_HIGHS)
    get_filename_component(folder ${TRIREME_HIGHS_LIBRARY} DIRECTORY)
    install(DIRECTORY ${folder}/ DESTINATION lib COMPONENT programs FILES_MATCHING PATTERN "libhighs.so*" PATTERN cmake EXCLUDE PATTERN pkgconfig EXCLUDE)
  endif()
  if(TRIREME_RUNTIME)
    set(without PATTERN "libtorch_python*" EXCLUDE PATTERN "libshm*" EXCLUDE)
    if(NOT TRIREME_HAS_CUDA)
      list(APPEND without PATTERN "*_cuda*" EXCLUDE PATTERN "*nvshmem*" EXCLUDE PATTERN "*nvrtc*" EXCLUDE)
    endif()
    install(DIRECTORY ${TRIREME_TORCH}/lib DESTINATION libtorch/torch COMPONENT libtorch FILES_MATCHING PATTERN "*.so*" ${without})
    foreach(folder IN LISTS TRIREME_NVIDIA_LIBRARIES)
      file(RELATIVE_PATH place ${TRIREME_LIBTORCH} ${folder})
      install(DIRECTORY ${folder}/ DESTINATION libtorch/${place} COMPONENT libtorch FILES_MATCHING PATTERN "*.so*")
    endforeach()
  endif()
endfunction()
