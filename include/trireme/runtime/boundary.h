// Point-to-point transfers between pipeline stages: outputs are sent down the chain, gradients up.
//
// A receive is posted one message ahead, so that data arrives while the rank computes; one send may
// be in flight while the next value is computed, and the send after that waits for it. This bounds
// what the transport buffers. Where ranks share several boundaries, the first message of a boundary
// may be sent long before its shape is known to a posted receive; that send is not waited for, so
// that two ranks cannot deadlock where the validator says that streams have room.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/comm/channel.h"
#include "trireme/model/layer.h"
#include "trireme/program/action.h"

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace trireme::runtime {

/// Number of unreceived messages per direction and peer before a send blocks; the validator assumes
/// it.
inline constexpr int kChannelCapacity = 2;

/// Element types and shapes of one boundary's values; the same for every micro-batch.
struct ValuesShape {
  struct One {
    int type = 0;  ///< c10::ScalarType
    std::vector<std::int64_t> sizes;
    bool operator==(const One&) const = default;
  };
  std::vector<One> tensors;
  bool operator==(const ValuesShape&) const = default;
};

/// One rank's transfers. The first message of every boundary is preceded by its shapes.
class Boundary {
 public:
  /// `world_rank[r]` is the channel's rank of pipeline rank r; `rank_of_layer` as in
  /// program::Program. Received tensors are on `device`, whose memory the channel must accept.
  Boundary(comm::Channel& channel, std::vector<int> world_rank, std::vector<int> rank_of_layer,
           c10::Device device = c10::DeviceType::CPU);

  /// Announces the actions that are run next; receives among them are posted ahead in this order.
  void expect(const std::vector<program::Action>& actions);

  /// Runs a send_output or send_gradient action. Undefined tensors among `values` are left out.
  void send(const program::Action& action, model::Values values);
  /// Runs a receive_input or receive_gradient action (one gradient per floating member of the
  /// output).
  model::Values receive(const program::Action& action);

  /// Waits until every send is complete.
  void flush();
  /// Waits until every send of this layer's output is complete; other sends may be in flight.
  void flush_outputs(int layer);

 private:
  struct Posted {
    model::Values values;
    std::vector<std::unique_ptr<comm::Transfer>> transfers;
    program::Action action;
    /// First message of its boundary where ranks share several: not waited for.
    bool first = false;
  };
  /// A shape message that is being sent.
  struct Announced {
    program::Action action;
    std::vector<std::int64_t> message;
    std::unique_ptr<comm::Transfer> transfer;
  };
  /// Messages of one stream with one peer.
  struct PeerStream {
    std::deque<program::Action> expected;
    std::optional<Posted> incoming;
    std::deque<Posted> outgoing;
    std::deque<Announced> announced;
  };
  using StreamKey = std::pair<int, comm::Stream>;

  StreamKey stream_of(const program::Action& action) const;
  void post_next(StreamKey key);
  Posted post(const program::Action& action, StreamKey key);
  void wait(Posted& posted);
  /// Waits until another send may start.
  void make_room(PeerStream& stream);
  void finish(PeerStream& stream);
  ValuesShape receive_shape(const program::Action& action, StreamKey key);
  void send_shape(const program::Action& action, StreamKey key, const ValuesShape& shape);
  ValuesShape shape_of_message(const program::Action& action) const;

  comm::Channel& channel_;
  std::vector<int> world_rank_;
  std::vector<int> rank_of_layer_;
  bool shares_ranks_;  ///< some rank has several separate runs of layers
  c10::Device device_;
  std::map<StreamKey, PeerStream> streams_;
  std::map<int, ValuesShape> output_shapes_;  ///< of x[i], by i; known after its first message
};

}  // namespace trireme::runtime
