// Message streams between ranks: first in, first out, of bounded capacity.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/platform.h"
#include "trireme/core/units.h"
#include "trireme/program/action.h"
#include "trireme/simulate/validate.h"

#include <cstddef>
#include <deque>
#include <set>
#include <vector>

namespace trireme::simulate {

struct Message {
  program::Action sent;   ///< the sender's action
  std::size_t index = 0;  ///< its index in the sender's list
  Seconds arrival;
};

/// Outputs or gradients from one rank to another.
struct Stream {
  int from = 0, to = 0;
  chain::LinkSpec link;
  std::deque<Message> messages;   ///< sent and not received
  std::vector<Seconds> received;  ///< when the last `capacity` messages were received, as a ring
  std::size_t sent_count = 0, received_count = 0;
  Seconds lane_free;  ///< when the link can take the next message
  bool sender_waits = false, receiver_waits = false;
  std::set<int> known;  ///< layers of which the receiver has received a message
};

/// All streams of a program, found by the action that uses them.
class Streams {
 public:
  Streams(const program::Program& program, const Setting& setting);

  /// The stream of a send or receive; its layer must be a cut between two ranks.
  Stream& of(const program::Action& action) { return streams_[number(action)]; }
  const Stream& of(const program::Action& action) const { return streams_[number(action)]; }
  bool full(const Stream& stream) const {
    return stream.sent_count - stream.received_count >= capacity_;
  }
  /// Whether the receiver has posted a receive for all that is in transit: for layers that it knows
  /// it posts the next receive ahead.
  bool all_asked_for(const Stream& stream) const;
  /// When the next message may be sent: once an earlier one has made room.
  Seconds room(const Stream& stream) const;
  void push(Stream& stream, const Message& message);
  void pop(Stream& stream, Seconds now);

  auto begin() const { return streams_.begin(); }
  auto end() const { return streams_.end(); }

 private:
  std::size_t number(const program::Action& action) const;

  std::size_t capacity_;
  bool is_first_step_;
  std::vector<Stream> streams_;
  std::vector<int> outputs_, gradients_;  // by layer: the stream of a cut's outputs, gradients
};

}  // namespace trireme::simulate
