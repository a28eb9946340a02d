# Python and the torch that is installed for it, for the extension trireme._core.
# In: TRIREME_PYTHON, Python_EXECUTABLE. Out: TRIREME_LIBTORCH, unless it is given: the folder that holds that torch.
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
