// SPDX-License-Identifier: Apache-2.0
#include "mpi_calls.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

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

void begin_mpi() {
  if (mpi_is_running()) throw CommError("MPI is running already: start it once per process");
  int provided = MPI_THREAD_SINGLE;
  check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread");
  check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  if (provided < MPI_THREAD_SERIALIZED)
    throw CommError(concat("this MPI offers thread level ", provided, ", MPI_THREAD_SERIALIZED (",
                           MPI_THREAD_SERIALIZED,
                           ") is needed: use an MPI built with thread support"));
}

Communicators duplicate_world() {
  Communicators made;
  for (MPI_Comm& stream : made.streams) stream = duplicate(MPI_COMM_WORLD);
  made.control = duplicate(MPI_COMM_WORLD);
  check(MPI_Comm_rank(made.control, &made.rank), "MPI_Comm_rank");
  check(MPI_Comm_size(made.control, &made.size), "MPI_Comm_size");
  return made;
}

int count_ranks_on_this_host() {
  MPI_Comm host = MPI_COMM_NULL;
  check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host),
        "MPI_Comm_split_type");
  int ranks = 1;
  check(MPI_Comm_size(host, &ranks), "MPI_Comm_size");
  check(MPI_Comm_free(&host), "MPI_Comm_free");
  return ranks;
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
