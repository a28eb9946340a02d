// SPDX-License-Identifier: Apache-2.0
#include "mpi_calls.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <algorithm>

namespace trireme::comm {
namespace {

/// A duplicate that returns errors instead of aborting.
MPI_Comm duplicate(MPI_Comm original);

}  // namespace

void check(int code, std::string_view call) {
  if (code != MPI_SUCCESS) throw CommError(concat(call, ": ", mpi_text(code)));
}

std::string mpi_text(int code) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  if (MPI_Error_string(code, text.data(), &length) != MPI_SUCCESS)
    return concat("error code ", code);
  return {text.data(), static_cast<std::size_t>(length)};
}

bool begin_mpi() {
  int begun = 0;
  check(MPI_Initialized(&begun), "MPI_Initialized");
  if (begun != 0 && !mpi_is_running())
    throw CommError(
        "MPI was finalized in this process and cannot start again: finalize it after the last run");
  if (begun != 0) return false;
  int provided = MPI_THREAD_SINGLE;
  check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread");
  check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  return true;
}

void require_serialized() {
  int level = MPI_THREAD_SINGLE;
  check(MPI_Query_thread(&level), "MPI_Query_thread");
  if (level >= MPI_THREAD_SERIALIZED) return;
  throw CommError(concat(
      "MPI runs at thread level ",
      level == MPI_THREAD_SINGLE ? "MPI_THREAD_SINGLE" : "MPI_THREAD_FUNNELED",
      " in this process, but MPI_THREAD_SERIALIZED is needed: start it by MPI_Init_thread with "
      "that level (mpi4py: mpi4py.rc.thread_level = \"serialized\" before its MPI is imported), or "
      "leave it to the run to start it; an MPI that offers no more must be built with thread "
      "support"));
}

Communicators duplicate_world() {
  Communicators made;
  for (MPI_Comm& stream : made.streams) stream = duplicate(MPI_COMM_WORLD);
  made.control = duplicate(MPI_COMM_WORLD);
  check(MPI_Comm_rank(made.control, &made.rank), "MPI_Comm_rank");
  check(MPI_Comm_size(made.control, &made.size), "MPI_Comm_size");
  return made;
}

void free_communicators(Communicators& communicators) {
  for (MPI_Comm& stream : communicators.streams) check(MPI_Comm_free(&stream), "MPI_Comm_free");
  check(MPI_Comm_free(&communicators.control), "MPI_Comm_free");
}

int count_ranks_on_this_host(const Communicators& communicators) {
  MPI_Comm host = MPI_COMM_NULL;
  check(MPI_Comm_split_type(communicators.control, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host),
        "MPI_Comm_split_type");
  int ranks = 1;
  check(MPI_Comm_size(host, &ranks), "MPI_Comm_size");
  check(MPI_Comm_free(&host), "MPI_Comm_free");
  return ranks;
}

std::string mpi_library() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  check(MPI_Get_library_version(text.data(), &length), "MPI_Get_library_version");
  std::string name = text.data();
  name.resize(std::min(name.size(), name.find_first_of(",\n")));
  std::replace(name.begin(), name.end(), '\t', ' ');
  return name;
}

bool mpi_is_running() {
  int begun = 0;
  int ended = 0;
  MPI_Initialized(&begun);
  MPI_Finalized(&ended);
  return begun != 0 && ended == 0;
}

namespace {

MPI_Comm duplicate(MPI_Comm original) {
  MPI_Comm copy = MPI_COMM_NULL;
  check(MPI_Comm_dup(original, &copy), "MPI_Comm_dup");
  check(MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  return copy;
}

}  // namespace
}  // namespace trireme::comm
