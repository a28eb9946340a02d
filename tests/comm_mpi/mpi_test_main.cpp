// Runs tests on every rank of an MPI world:
//   mpirun -n 4 comm_mpi_tests [--piece=BYTES] [gtest's flags]
// Rank 0 prints; the others print their failures only.
// SPDX-License-Identifier: Apache-2.0
#include "comm_mpi/mpi_world.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <string_view>

namespace trireme::comm {
namespace {

/// Prints failures of a rank that is otherwise silent.
class FailurePrinter : public testing::EmptyTestEventListener {
 public:
  explicit FailurePrinter(int rank) : rank_(rank) {}
  // Remembered, since GoogleTest holds its lock while it reports a failure and would not answer.
  void OnTestStart(const testing::TestInfo& test) override { test_ = test.name(); }
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::fprintf(stderr, "rank %d, %s: %s:%d\n%s\n", rank_, test_.c_str(),
                 result.file_name() != nullptr ? result.file_name() : "", result.line_number(),
                 result.message());
  }

 private:
  int rank_;
  std::string test_;
};

Bytes piece_of(int argc, char** argv) {
  constexpr std::string_view kFlag = "--piece=";
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.starts_with(kFlag)) return parse_bytes(argument.substr(kFlag.size())).value();
  }
  return kLargestPiece;
}

int run_all(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  world() = MpiWorld::start(patient(), piece_of(argc, argv));
  const int rank = world()->channel().rank();
  if (rank != 0) {
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailurePrinter(rank));
  }
  if (RUN_ALL_TESTS() != 0) {
    world()->end_job(Error("its tests failed"), [](const Cause&) {});
  }
  world()->close();
  return 0;
}

}  // namespace
}  // namespace trireme::comm

int main(int argc, char** argv) {
  return trireme::comm::run_all(argc, argv);
}
