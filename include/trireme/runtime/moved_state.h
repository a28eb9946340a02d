// Numbers that live in the offload tier and come to the device a part at a time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/chain.h"
#include "trireme/core/units.h"
#include "trireme/program/passing_parts.h"
#include "trireme/runtime/step_clock.h"
#include "trireme/tier/value_copies.h"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace trireme::runtime {

/// Parts of float32 numbers. Tensors that stand in a part have bytes only while it is here. Made
/// and used by one thread, in whose memory parts count while they are here: one at a time, between
/// begin() and end() as many as that says.
class MovedState {
 public:
  /// Over copies that nobody else uses.
  MovedState(std::unique_ptr<tier::ValueCopies> copies, c10::Device device);
  /// The copies give up what is under way.
  ~MovedState();
  MovedState(const MovedState&) = delete;
  MovedState& operator=(const MovedState&) = delete;

  /// One more part, of `numbers` zeros, which is here until the next call for another one.
  at::Tensor add(std::int64_t numbers);

  std::size_t size() const { return parts_.size(); }
  /// The part's numbers, which are here until the next call for another one.
  at::Tensor part(std::size_t i);
  /// Sends away what is here.
  void close();

  /// The first of these parts begin to come, as many as are here before any leaves.
  void begin(std::vector<std::size_t> parts, chain::StateParts most);
  /// Calls `use` with the next of them, which then leaves. Where more leave than may at a time, the
  /// first of them has left after it; others begin to come where there is room.
  void use_next(const std::function<void(std::size_t)>& use, const Waits& waits = {});
  /// All of them were used, and leave.
  void end(const Waits& waits = {});
  /// All three: three parts at a time, one comes, one is used and one leaves.
  void for_each(const std::vector<std::size_t>& parts, const std::function<void(std::size_t)>& use,
                const Waits& waits = {});

  /// What moved: bytes that came to be used, each of which leaves again, and the time that all
  /// copies took.
  struct Moved {
    Bytes size;
    Seconds out{0}, in{0};
  };
  /// Since the last call; waits until nothing moves any more.
  Moved take_moved();

 private:
  /// Now and then, for lanes keep the times of all copies until asked.
  void count_copies();
  void bring();
  static tier::ValueCopies::Key key(std::size_t i);
  void send(std::size_t i);

  std::unique_ptr<tier::ValueCopies> copies_;
  c10::Device device_;
  std::vector<at::Tensor> parts_;
  std::optional<std::size_t> here_;
  std::vector<std::size_t> order_;  ///< of the parts that pass, from begin() to end()
  program::PassingParts passing_;
  Moved moved_;
};

}  // namespace trireme::runtime
