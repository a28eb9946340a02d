# Python and its torch, for the extension trireme._core.
# In: TRIREME_PYTHON, Python_EXECUTABLE, TRIREME_LIBTORCH. Out: TRIREME_PYTHON, ON or OFF; where it was ON, TRIREME_LIBTORCH,
# unless that is given: the folder that holds the torch of Python_EXECUTABLE.

# Whether the LibTorch in `folder` is a torch that this Python can load, in `out`; else why it is not.
function(trireme_find_torch_of_python folder out why)
  set(${out} OFF PARENT_SCOPE)
  if(NOT Python_FOUND)
    set(${why} "there is no Python 3.10 or newer with its headers (Debian: python3-dev)" PARENT_SCOPE)
  elseif(NOT EXISTS ${folder}/torch/_C.${Python_SOABI}.so)
    set(${why} "${folder} has no torch of Python ${Python_VERSION}" PARENT_SCOPE)
  else()
    execute_process(COMMAND ${Python_EXECUTABLE} -c "import ctypes; ctypes.CDLL('${folder}/torch/lib/libtorch_python.so')"
      RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
    if(failed)
      set(${why} "the torch in ${folder} cannot be loaded here (a torch with CUDA needs its libraries)" PARENT_SCOPE)
    else()
      set(${out} ON PARENT_SCOPE)
    endif()
  endif()
endfunction()

if(TRIREME_PYTHON STREQUAL "AUTO")
  find_package(Python 3.10 COMPONENTS Interpreter Development.Module)
  set(_folder ${TRIREME_LIBTORCH})
  if(NOT _folder)
    set(_folder ${TRIREME_OWN_LIBTORCH})
  endif()
  trireme_find_torch_of_python(${_folder} TRIREME_PYTHON _why)
  if(NOT TRIREME_PYTHON)
    message(STATUS "no Python package: ${_why}")
  endif()
else()
  find_package(Python 3.10 REQUIRED COMPONENTS Interpreter Development.Module)
  if(NOT TRIREME_LIBTORCH)
    execute_process(COMMAND ${Python_EXECUTABLE} -c
      "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')"
      OUTPUT_VARIABLE _found OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
    if(NOT _found)
      message(FATAL_ERROR
        "${Python_EXECUTABLE} has no torch, which the extension is built against.\n"
        "  Install torch into the environment that it is for; with pip, build with --no-build-isolation.")
    endif()
    get_filename_component(TRIREME_LIBTORCH ${_found} DIRECTORY)
  endif()
endif()
