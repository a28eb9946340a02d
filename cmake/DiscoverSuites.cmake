# Starting LibTorch takes longer than most tests, so a suite is one entry of ctest and one process, named <prefix><suite>, or
# <prefix><instantiation>/<suite> where it has parameters. gtest's own results of every entry are in <build>/gtest/<entry>.xml.
#
# trireme_discover_suites(<target> PREFIX p LABEL l [EACH suites...] [EACH_WHERE file] [COST n] [FILTER f] [ENVIRONMENT words...])
#   EACH        suites whose tests need a process of their own, or take so long that two cores should share them: every test of
#               theirs is an entry, <prefix><suite>.<test>
#   EACH_WHERE  where this file exists when ctest runs, every test of every suite is
#   COST        of one test, about, in whole seconds: ctest begins with the longest entries
#   FILTER      as gtest's
function(trireme_discover_suites target)
  cmake_parse_arguments(T "" "PREFIX;LABEL;EACH_WHERE;COST;FILTER" "EACH;ENVIRONMENT" ${ARGN})
  set(found ${CMAKE_CURRENT_BINARY_DIR}/${T_PREFIX}suites.cmake)
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${CMAKE_CURRENT_FUNCTION_LIST_FILE})
  add_custom_command(TARGET ${target} POST_BUILD BYPRODUCTS ${found} VERBATIM
    COMMAND ${CMAKE_COMMAND} -DPROGRAM=$<TARGET_FILE:${target}> -DFOUND=${found} -DRESULTS=${PROJECT_BINARY_DIR}/gtest
      -DPREFIX=${T_PREFIX} -DLABEL=${T_LABEL} -DCOST=${T_COST} -DFILTER=${T_FILTER}
      "-DEACH=${T_EACH}" -DEACH_WHERE=${T_EACH_WHERE} "-DENVIRONMENT=${T_ENVIRONMENT}"
      -P ${CMAKE_CURRENT_FUNCTION_LIST_FILE})
  file(WRITE ${found}.include "if(EXISTS [==[${found}]==])\n  include([==[${found}]==])\n"
    "else()\n  add_test(${T_PREFIX}NOT_BUILT ${T_PREFIX}NOT_BUILT)\nendif()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${found}.include)
endfunction()

if(NOT CMAKE_SCRIPT_MODE_FILE STREQUAL CMAKE_CURRENT_LIST_FILE)
  return()
endif()

# Run once PROGRAM is linked: writes FOUND, which ctest reads.
cmake_minimum_required(VERSION 3.25)

# entry(<name> <gtest_filter> <number of tests>). Skipped is an entry of which nothing passed and nothing failed: ctest asks this
# expression before the exit code, and after a failure more follows than names of skipped tests. A crash is always a failure.
function(entry name filter tests)
  math(EXPR cost "0${COST} * ${tests}")
  file(APPEND ${FOUND}.new
    "add_test([==[${name}]==] [==[${PROGRAM}]==] [==[--gtest_filter=${filter}]==] [==[--gtest_output=xml:${RESULTS}/${name}.xml]==])\n"
    "set_tests_properties([==[${name}]==] PROPERTIES LABELS ${LABEL} TIMEOUT 600 COST ${cost} ENVIRONMENT [==[${ENVIRONMENT}]==]\n"
    "  SKIP_REGULAR_EXPRESSION [==[\\[  PASSED  \\] 0 tests\\.\n(\\[  SKIPPED \\] [^\n]*\n)+$]==])\n")
endfunction()

# entries(<list>): of all suites; of those in the list, of every test.
function(entries each)
  foreach(suite IN LISTS suites)
    if(suite IN_LIST each)
      foreach(test IN LISTS tests_of_${suite})
        entry(${PREFIX}${test} ${test} 1)
      endforeach()
    else()
      list(LENGTH tests_of_${suite} tests)
      list(JOIN tests_of_${suite} ":" names)
      if(FILTER STREQUAL "*")
        set(names ${suite}.*)
      endif()
      entry(${PREFIX}${suite} ${names} ${tests})
    endif()
  endforeach()
endfunction()

if(NOT FILTER)
  set(FILTER *)
endif()
execute_process(COMMAND ${PROGRAM} --gtest_list_tests --gtest_filter=${FILTER}
  OUTPUT_VARIABLE lines TIMEOUT 60 COMMAND_ERROR_IS_FATAL ANY)
string(REGEX REPLACE "  # [^\n]*" "" lines "${lines}")  # values of parameters: any text
string(REPLACE "\n" ";" lines "${lines}")
set(suites "")
foreach(line IN LISTS lines)
  if(line MATCHES "^([^ ]+)\\.$")
    set(suite ${CMAKE_MATCH_1})
    list(APPEND suites ${suite})
    set(tests_of_${suite} "")
  elseif(line MATCHES "^  ([^ ]+)$")
    list(APPEND tests_of_${suite} ${suite}.${CMAKE_MATCH_1})
  endif()
endforeach()
if(NOT suites)
  message(FATAL_ERROR "${PROGRAM} --gtest_list_tests --gtest_filter=${FILTER} names no test:\n${lines}")
endif()
foreach(suite IN LISTS EACH)
  if(NOT suite IN_LIST suites)
    message(FATAL_ERROR "EACH of ${PREFIX} names ${suite}, which is none of its suites: ${suites}")
  endif()
endforeach()

file(WRITE ${FOUND}.new "")
if(EACH_WHERE)
  file(APPEND ${FOUND}.new "if(EXISTS [==[${EACH_WHERE}]==])\n")
  entries("${suites}")
  file(APPEND ${FOUND}.new "else()\n")
endif()
entries("${EACH}")
if(EACH_WHERE)
  file(APPEND ${FOUND}.new "endif()\n")
endif()
file(RENAME ${FOUND}.new ${FOUND})
