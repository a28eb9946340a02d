# Sources are compiled in batches of a few (CMake's unity build), which share the time for headers: a build takes about half as
# long. Names in anonymous namespaces of one batch must differ; a source whose names do not is compiled alone.
option(TRIREME_BATCHES "Compile sources in batches. OFF: one by one, which says where a source lacks an include." ON)

# trireme_batch(<target> [ALONE sources ...])
function(trireme_batch target)
  cmake_parse_arguments(B "" "" "ALONE" ${ARGN})
  if(TRIREME_BATCHES)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 5)
    get_target_property(dir ${target} SOURCE_DIR)
    get_target_property(srcs ${target} SOURCES)
    foreach(one IN LISTS srcs)
      if("${dir}/${one}" IN_LIST TRIREME_ALONE)
        list(APPEND B_ALONE ${one})
      endif()
    endforeach()
    set_source_files_properties(${B_ALONE} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
endfunction()
