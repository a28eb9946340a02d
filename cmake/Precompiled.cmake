# What nearly every source includes, compiled once: the standard library alone (trireme_std_pch), with GoogleTest
# (trireme_test_pch), with LibTorch (trireme_torch_pch). A source still includes what it uses.
set(TRIREME_STD_HEADERS <algorithm> <array> <cmath> <cstdint> <filesystem> <functional> <map> <memory> <optional> <set> <span>
  <string> <string_view> <tuple> <utility> <variant> <vector>)

# trireme_add_pch(<name> [UNOPTIMIZED] HEADERS <...> ... [USES targets ...] [OPTIONS ...]): for targets that REUSE_FROM it.
# UNOPTIMIZED: under sanitizers there is also <name>_unoptimized, for code that is not optimized.
# Everything is compiled with -fPIC, executables too, so that one fits all.
function(trireme_add_pch name)
  cmake_parse_arguments(P "UNOPTIMIZED" "" "HEADERS;USES;OPTIONS" ${ARGN})
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/${name}.cpp CONTENT "")  # written once: a touch would rebuild its users
  add_library(${name} OBJECT ${PROJECT_BINARY_DIR}/${name}.cpp)
  target_link_libraries(${name} PRIVATE ${P_USES} trireme_warnings trireme_sanitize)
  target_compile_options(${name} PRIVATE -fPIC ${P_OPTIONS})
  target_precompile_headers(${name} PRIVATE ${P_HEADERS} ${TRIREME_STD_HEADERS})
  if(P_UNOPTIMIZED AND TRIREME_SANITIZE)
    trireme_add_pch(${name}_unoptimized HEADERS ${P_HEADERS} USES ${P_USES} OPTIONS -O0)
  endif()
endfunction()

# An executable with a shared precompiled header, which was made with -fPIC where CMake gives executables -fPIE.
function(trireme_use_pch target pch)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${target} PRIVATE -fPIC)
  target_precompile_headers(${target} REUSE_FROM ${pch})
endfunction()

# Folders whose code takes longer to compile under sanitizers than to run: there it is not optimized, which saves two fifths of
# the time.
set(TRIREME_UNOPTIMIZED src/app src/checkpoint src/comm src/config src/io src/plan src/record src/report
  tests/app tests/chain tests/checkpoint tests/comm tests/config tests/core tests/graph tests/io tests/plan tests/program
  tests/readers tests/record tests/report tests/schedule tests/simulate)

# trireme_choose_pch(<target> <pch> <out>): `pch`, or the one of code that is not optimized, where the target is such code.
function(trireme_choose_pch target pch out)
  file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  if(TRIREME_SANITIZE AND folder IN_LIST TRIREME_UNOPTIMIZED)
    target_compile_options(${target} PRIVATE -O0)
    set(pch ${pch}_unoptimized)
  endif()
  set(${out} ${pch} PARENT_SCOPE)
endfunction()

trireme_add_pch(trireme_std_pch UNOPTIMIZED)
