// Trains a job twice in one process, as a program of somebody else's may, then says which
// libraries of MPI this process has loaded.
//   [mpirun -n 2] two_runs JOB.yaml FOLDER [LIBMPI]
// With the path of an MPI library the program starts MPI itself before, as mpi4py does, and
// finalizes it: here it is loaded, not linked.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/app_runtime/run.h"

#include <dlfcn.h>

#include <cstdio>
#include <fstream>
#include <set>
#include <string>

namespace {

constexpr int kSerialized = 2;  // MPI_THREAD_SERIALIZED of Open MPI and MPICH

template <class Function>
Function* function_of(void* library, const char* name) {
  void* const found = library == nullptr ? nullptr : dlsym(library, name);
  if (found == nullptr) {
    std::fprintf(stderr, "no %s: %s\n", name, dlerror());
    std::_Exit(2);
  }
  return reinterpret_cast<Function*>(found);
}

int train(const std::string& job, const std::string& folder) {
  const std::string directory = "report.directory=" + folder;
  const char* const words[] = {"trireme", "train", job.c_str(), "--set", directory.c_str()};
  return trireme::app::run(5, words);
}

std::set<std::string> loaded_mpi() {
  std::set<std::string> files;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    for (const char* const name : {"/libmpi", "/libtrireme_mpi"})
      if (line.find(name) != std::string::npos) files.insert(line.substr(line.rfind('/')));
  return files;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const bool own = argc == 4;
  void* const library = own ? dlopen(argv[3], RTLD_NOW | RTLD_LOCAL) : nullptr;
  int level = 0;
  if (own)
    function_of<int(int*, char***, int, int*)>(library, "MPI_Init_thread")(nullptr, nullptr,
                                                                           kSerialized, &level);
  for (const char* const run : {"/first", "/second"})
    if (const int code = train(argv[1], argv[2] + std::string(run)); code != 0) return code;
  for (const std::string& file : loaded_mpi()) std::printf("loaded: %s\n", file.c_str());
  if (own) {
    int ended = 0;
    function_of<int(int*)>(library, "MPI_Finalized")(&ended);
    std::printf("MPI was %s\n", ended != 0 ? "finalized" : "left to the program");
    function_of<int()>(library, "MPI_Finalize")();
  }
  return 0;
}
