# Warnings, sanitizers, compiler cache and linker: INTERFACE targets and defaults, no directory-wide flags.
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

add_library(trireme_warnings INTERFACE)
target_compile_options(trireme_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual
  -Wno-missing-field-initializers  # designated initialisers leave the rest to the defaults, on purpose
  -Werror=switch -Werror=return-type)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(trireme_warnings INTERFACE -Wno-restrict)  # false alarms of GCC 12 (bug 105651)
endif()
option(TRIREME_WERROR "Warnings are errors" OFF)
if(TRIREME_WERROR)
  target_compile_options(trireme_warnings INTERFACE -Werror)
endif()

add_library(trireme_sanitize INTERFACE)
if(TRIREME_SANITIZE)
  target_compile_options(trireme_sanitize INTERFACE
    -fsanitize=${TRIREME_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  if(TRIREME_SANITIZE_NOT)  # checks of which another one tells as well, and that take a quarter of the time
    target_compile_options(trireme_sanitize INTERFACE -fno-sanitize=${TRIREME_SANITIZE_NOT})
  endif()
  target_link_options(trireme_sanitize INTERFACE -fsanitize=${TRIREME_SANITIZE})
endif()

# GCC collects garbage less often: a sixth less time for a source that includes LibTorch, for up to 0.5 GB more memory.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options("SHELL:--param ggc-min-expand=300" "SHELL:--param ggc-min-heapsize=600000")
endif()

find_program(TRIREME_CCACHE ccache)
if(TRIREME_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # A precompiled header is not reproducible byte by byte: cache by what it is made of.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${TRIREME_CCACHE})
  add_compile_options($<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
endif()

find_program(TRIREME_GOLD ld.gold)
if(TRIREME_GOLD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_link_options(-fuse-ld=gold)  # 0.2 s instead of 1.5 s for a binary that links LibTorch
endif()
