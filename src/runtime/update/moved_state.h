// Float32 state in the offload tier that is copied to the device one part at a time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "update/step_clock.h"

#include "trireme/chain/chain.h"
#include "trireme/core/units.h"
#include "trireme/program/passing_parts.h"
#include "trireme/tier/value_copies.h"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace trireme::runtime {

/// Float32 state in parts. A tensor that is a view of a part has bytes only while the part is on
/// the device. Created and used by one thread, in whose memory parts on the device count: one at a
/// time, or between begin() and end() as many as begin() says.
class MovedState {
 public:
  /// `copies` is used by nothing else.
  MovedState(std::unique_ptr<tier::ValueCopies> copies, c10::Device device);
  /// Abandons copies under way.
  ~MovedState();
  MovedState(const MovedState&) = delete;
  MovedState& operator=(const MovedState&) = delete;

  /// Adds a part of `numbers` zeros, which is on the device until the next call for another one.
  at::Tensor add(std::int64_t numbers);

  std::size_t size() const { return parts_.size(); }
  /// Brings the part to the device, where it is until the next call for another one.
  at::Tensor part(std::size_t i);
  /// Offloads the part that is on the device.
  void close();

  /// Starts to copy these parts to the device in order, as many as may be there before any leaves.
  /// By default `most` is triple buffering: one part is copied in, one is used, one is copied out.
  void begin(std::vector<std::size_t> parts, chain::StateParts most = {});
  /// Calls `use` with the next part and then starts to offload it. Waits for the oldest copy out if
  /// more are leaving than may at a time; starts further copies in where there is room.
  void use_next(const std::function<void(std::size_t)>& use, const Waits& waits = {});
  /// Whether no part of the pass is left to use.
  bool are_all_used() const { return passing_.used() == order_.size(); }
  /// Ends the pass over the parts, all of which were used, if there is one: waits until they have
  /// left.
  void end(const Waits& waits = {});

  /// Traffic: bytes that were copied in (each is copied out again), and the time of all copies.
  struct Moved {
    Bytes size;
    Seconds out{0}, in{0};
  };
  /// Traffic since the last call; waits for all copies.
  Moved take_moved();

 private:
  /// Adds up copy times; called regularly, since lanes keep the times of all copies until asked.
  void count_copies();
  void bring();
  static tier::ValueCopies::Key key(std::size_t i);
  void send(std::size_t i);

  std::unique_ptr<tier::ValueCopies> copies_;
  c10::Device device_;
  std::vector<at::Tensor> parts_;
  std::optional<std::size_t> here_;
  std::vector<std::size_t> order_;  ///< parts to use, from begin() to end()
  program::PassingParts passing_;
  Moved moved_;
};

}  // namespace trireme::runtime
