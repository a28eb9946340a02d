// Runs all ranks of a program together over their message streams: what validator and simulator
// share.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "execution.h"
#include "streams.h"

#include "trireme/simulate/simulate.h"
#include "trireme/simulate/validate.h"

#include <memory>
#include <optional>
#include <vector>

namespace trireme::simulate {

/// How far a rank has run its actions.
struct RankState {
  RankState(const chain::Chain& chain, const Execution::Setup& setup) : execution(chain, setup) {}

  Execution execution;
  std::size_t next = 0;
  Seconds waited;             ///< time waited for other ranks
  std::vector<Event> events;  ///< with Detail::kTimeline
};

/// Checks that a caller adds to the rules of every run.
class Watch {
 public:
  virtual ~Watch() = default;
  /// Called after `rank` has run its action number state.next. A returned text is a fault there.
  virtual std::optional<std::string> ran(int rank, const RankState& state) = 0;
};

/// Every rank runs until it has to wait for another one; then another one runs. Since a rank waits
/// for specific messages only, neither times nor outcome depend on whose turn it is (a Kahn network
/// with bounded channels). The program's shape must have been checked.
class Engine {
 public:
  Engine(const program::Program& program, const Setting& setting, Detail detail);

  /// The first action that cannot run, a deadlock, or a message that no rank receives.
  std::optional<ProgramFault> run(Watch* watch);

  const std::vector<std::unique_ptr<RankState>>& ranks() const { return ranks_; }
  const std::vector<Copy>& copies(int rank, Lane lane) const;
  std::vector<MemoryPoint>& curve(int rank) {
    return records_[static_cast<std::size_t>(rank)]->curve;
  }

 private:
  struct Record {
    std::vector<Copy> out, in, weights, weights_out;
    std::vector<MemoryPoint> curve;
  };
  enum class Turn { kRan, kWaits };

  std::optional<ProgramFault> run_rank(int rank, Watch* watch);
  /// A fault's reason, or whether the action ran.
  std::optional<std::string> take_turn(int rank, Turn& turn);
  std::optional<std::string> send(int rank, const program::Action& action, Turn& turn);
  std::optional<std::string> receive(int rank, const program::Action& action, Turn& turn);
  /// If `may`, continues once the stream has room; else waits for the receiver and returns false.
  bool goes_on(RankState& state, Stream& stream, bool may, Turn& turn);
  /// Whether messages of outputs may still read bytes that this action copies out.
  bool takes_from_messages(int rank, const program::Action& action) const;
  /// The stream that a waiting action waits for.
  const Stream& stream_of(int rank, const program::Action& action) const;
  void wait(RankState& state, Seconds until);
  void record(int rank, const program::Action& action);
  std::optional<ProgramFault> stuck() const;
  std::optional<ProgramFault> unreceived() const;
  int waits_for(int rank) const;
  std::string place(int rank) const;

  const program::Program& program_;
  const Setting& setting_;
  Detail detail_;
  Streams streams_;
  std::vector<std::unique_ptr<Record>> records_;
  std::vector<std::unique_ptr<RankState>> ranks_;
  std::vector<int> ready_;
};

}  // namespace trireme::simulate
