# What nearly every source includes, compiled once: the standard library alone (trireme_std_pch), with GoogleTest
# (trireme_test_pch), with LibTorch (trireme_torch_pch). A source still includes what it uses.
set(TRIREME_STD_HEADERS <algorithm> <array> <cmath> <cstdint> <filesystem> <functional> <map> <memory> <optional> <set> <span>
  <string> <string_view> <tuple> <utility> <variant> <vector>)

# trireme_add_pch(<name> HEADERS <...> ... [USES targets ...] [OPTIONS ...]): for targets that REUSE_FROM it.
# Everything is compiled with -fPIC, executables too, so that one fits all.
function(trireme_add_pch name)
  cmake_parse_arguments(P "" "" "HEADERS;USES;OPTIONS" ${ARGN})
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/${name}.cpp CONTENT "")  # written once: a touch would rebuild its users
  add_library(${name} OBJECT ${PROJECT_BINARY_DIR}/${name}.cpp)
  target_link_libraries(${name} PRIVATE ${P_USES} trireme_warnings trireme_sanitize)
  target_compile_options(${name} PRIVATE -fPIC ${P_OPTIONS})
  target_precompile_headers(${name} PRIVATE ${P_HEADERS} ${TRIREME_STD_HEADERS})
endfunction()

# An executable with a shared precompiled header, which was made with -fPIC where CMake gives executables -fPIE.
function(trireme_use_pch target pch)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${target} PRIVATE -fPIC)
  target_precompile_headers(${target} REUSE_FROM ${pch})
endfunction()

trireme_add_pch(trireme_std_pch)
