# HiGHS, which solves the mixed-integer programs of the module poet: library and headers out of PyPI's wheel highsbox, which
# launch/install fetches. By a hand-written imported target: the wheel's own files ask for BLAS and zlib to compile with.
# In: TRIREME_HIGHS. Out: TRIREME_HAS_HIGHS and, if on, trireme_highs.
set(TRIREME_HAS_HIGHS OFF)
if(NOT TRIREME_HIGHS)
  return()
endif()

set(_highs ${PROJECT_SOURCE_DIR}/.deps/highs/highsbox/highs_dist)
find_path(TRIREME_HIGHS_INCLUDE interfaces/highs_c_api.h PATHS ${_highs} PATH_SUFFIXES include/highs)
find_library(TRIREME_HIGHS_LIBRARY highs PATHS ${_highs}/lib)
if(NOT TRIREME_HIGHS_INCLUDE OR NOT TRIREME_HIGHS_LIBRARY)
  if(NOT TRIREME_HIGHS STREQUAL "AUTO")
    message(FATAL_ERROR "no HiGHS under '${_highs}'; ./launch/install puts one there, -DTRIREME_HIGHS=OFF builds without")
  endif()
  message(STATUS "no HiGHS: the solver poet is left out (./launch/install fetches it)")
  return()
endif()

add_library(trireme_highs SHARED IMPORTED)
set_target_properties(trireme_highs PROPERTIES IMPORTED_LOCATION ${TRIREME_HIGHS_LIBRARY})
target_include_directories(trireme_highs SYSTEM INTERFACE ${TRIREME_HIGHS_INCLUDE})
# As seen from bin/, as for LibTorch; CMake adds the folder itself.
get_filename_component(_folder ${TRIREME_HIGHS_LIBRARY} DIRECTORY)
file(RELATIVE_PATH _relative ${CMAKE_RUNTIME_OUTPUT_DIRECTORY} ${_folder})
list(APPEND CMAKE_BUILD_RPATH "$ORIGIN/${_relative}")
set(TRIREME_HAS_HIGHS ON)
