// The MPI of a process, which several runs share, or which the program has started itself: each
// mode is a job of two ranks.
//   mpirun -n 2 comm_mpi_process MODE
// Exits with 1, having said why, where the fact does not hold.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/comm_mpi/world.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <mpi.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace {

using trireme::Seconds;
using trireme::comm::MpiWorld;
using trireme::comm::Stream;
using Buffer = std::vector<std::byte>;

std::atomic<int> communicators{0};  // NOLINT: made and not freed
int failures = 0;                   // NOLINT

}  // namespace

// MPI's profiling interface: these take the place of the library's own.
extern "C" int MPI_Comm_dup(MPI_Comm original, MPI_Comm* copy) {
  ++communicators;
  return PMPI_Comm_dup(original, copy);
}
extern "C" int MPI_Comm_split_type(MPI_Comm original, int type, int key, MPI_Info info,
                                   MPI_Comm* part) {
  ++communicators;
  return PMPI_Comm_split_type(original, type, key, info, part);
}
extern "C" int MPI_Comm_free(MPI_Comm* communicator) {
  --communicators;
  return PMPI_Comm_free(communicator);
}

namespace {

void require(bool holds, const std::string& fact) {
  if (holds) return;
  ++failures;
  std::fprintf(stderr, "does not hold: %s\n", fact.c_str());
}

bool is_finalized() {
  int ended = 0;
  MPI_Finalized(&ended);
  return ended != 0;
}

/// Both ranks send each other `value`, in a small and in a large message.
void run_once(std::byte value) {
  const auto world = MpiWorld::start({Seconds(30), {}});
  require(world->channel().size() == 2, "the world has two ranks");
  const int peer = 1 - world->channel().rank();
  for (const std::size_t size : {std::size_t{100}, std::size_t{1} << 20}) {
    const Buffer sent(size, value);
    Buffer received(size);
    const auto receive = world->channel().receive(received, peer, Stream::kOutputs);
    const auto send = world->channel().send(sent, peer, Stream::kOutputs);
    receive->wait("receive");
    send->wait("send");
    require(received == sent, "what arrives is what was sent");
  }
  world->close();
  require(communicators == 0, "a closed world leaves no communicator");
}

std::string error_of_start() {
  try {
    MpiWorld::start({Seconds(30), {}});
  } catch (const trireme::CommError& error) {
    return error.what();
  }
  return "no error";
}

void require_refusal(const std::vector<std::string>& words) {
  const std::string error = error_of_start();
  for (const std::string& word : words)
    require(error.find(word) != std::string::npos,
            trireme::concat("'", error, "' contains '", word, "'"));
}

/// That MPI is finalized at exit, mpirun sees: it takes a process that exits without for failed.
void several_runs() {
  for (int run = 1; run <= 20; ++run) {
    run_once(std::byte(run));
    require(!is_finalized(), "MPI lives on after a run");
  }
}

/// Called after the handlers that a world has registered.
void finalize_own() {
  if (is_finalized()) std::_Exit(1);
  MPI_Finalize();
}

void running_before(int level) {
  std::atexit(finalize_own);
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, level, &provided);
  MPI_Errhandler before = MPI_ERRHANDLER_NULL, after = MPI_ERRHANDLER_NULL;
  MPI_Comm_get_errhandler(MPI_COMM_WORLD, &before);
  for (int run = 1; run <= 2; ++run) run_once(std::byte(run));
  MPI_Comm_get_errhandler(MPI_COMM_WORLD, &after);
  require(before == after, "the program's error handler stays");
  int sum = 0;
  const int one = 1;
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  require(sum == 2, "the program's own MPI works on");
}

void running_at_too_low_a_level(int level, const std::string& name) {
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, level, &provided);
  require(provided == level, "MPI gives the level that was asked for");
  require_refusal({"runs at thread level " + name, "MPI_THREAD_SERIALIZED is needed",
                   "MPI_Init_thread", "mpi4py.rc.thread_level"});
  require(!is_finalized(), "a refused MPI lives on");
  MPI_Finalize();
}

void finalized_before() {
  MPI_Init(nullptr, nullptr);
  MPI_Finalize();
  require_refusal({"MPI was finalized in this process"});
}

const std::map<std::string_view, std::function<void()>>& modes() {
  static const std::map<std::string_view, std::function<void()>> kModes{
      {"several_runs", several_runs},
      {"running_serialized", [] { running_before(MPI_THREAD_SERIALIZED); }},
      {"running_multiple", [] { running_before(MPI_THREAD_MULTIPLE); }},
      {"running_single",
       [] { running_at_too_low_a_level(MPI_THREAD_SINGLE, "MPI_THREAD_SINGLE"); }},
      {"running_funneled",
       [] { running_at_too_low_a_level(MPI_THREAD_FUNNELED, "MPI_THREAD_FUNNELED"); }},
      {"finalized", finalized_before}};
  return kModes;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 || !modes().contains(argv[1])) return 2;
  modes().at(argv[1])();
  return failures == 0 ? 0 : 1;
}
