# Third-party libraries. The pure modules need yaml-cpp, nlohmann-json, xxhash; the command CLI11;
# the solver of graphs HiGHS, where it is found.
find_package(Threads REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(nlohmann_json 3.9 REQUIRED)
find_path(TRIREME_XXHASH_INCLUDE xxhash.h REQUIRED)
add_library(trireme_xxhash INTERFACE)
target_include_directories(trireme_xxhash SYSTEM INTERFACE ${TRIREME_XXHASH_INCLUDE})
find_package(CLI11 REQUIRED)

if(TRIREME_TESTS)
  find_package(GTest REQUIRED)
  include(GoogleTest)
endif()
if(TRIREME_BENCH)
  find_package(benchmark REQUIRED)
endif()
if(TRIREME_RUNTIME)
  include(LibTorch)
  include(Cuda)
  # Images of these formats; each may be absent.
  find_package(PNG)
  find_package(JPEG)
  if(TRIREME_MPI)
    find_package(MPI REQUIRED COMPONENTS CXX)
  endif()
endif()
include(Highs)  # after LibTorch, which sets the rpath that this one adds to
