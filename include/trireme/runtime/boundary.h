// Tensors over a channel: outputs go down the chain, gradients come up.
//
// A receive is posted one message ahead, so that data arrives while the rank computes; a send may
// be under way while the next value is made, and the one after that waits for it. The two together
// bound what the transport holds. Where ranks share several boundaries, the first message of one
// may be sent long before its shape is known to a posted receive; nobody waits for it to leave, so
// that two ranks cannot wait for each other where the validator says that streams have room.
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

/// Messages of one direction to one peer that may wait unreceived before a send blocks: what the
/// validator assumes.
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

/// One rank's transfers. The first message of every boundary is preceded by its shape.
class Boundary {
 public:
  /// `world_rank[r]` is the channel's rank of the pipeline's rank r; `rank_of_layer` as in
  /// program::Program. What arrives is put on `device`, whose memory the channel must take.
  Boundary(comm::Channel& channel, std::vector<int> world_rank, std::vector<int> rank_of_layer,
           c10::Device device = c10::DeviceType::CPU);

  /// Announces the actions that are run next; receives among them are posted ahead in this order.
  void expect(const std::vector<program::Action>& actions);

  /// For send_output and send_gradient. Undefined tensors among `values` are left out.
  void send(const program::Action& action, model::Values values);
  /// For receive_input and receive_gradient (one gradient per floating member of the output).
  model::Values receive(const program::Action& action);

  /// Waits until every send has left.
  void flush();
  /// Waits until every output of this layer has left; others may be under way.
  void flush_outputs(int layer);

 private:
  struct Posted {
    model::Values values;
    std::vector<std::unique_ptr<comm::Transfer>> transfers;
    program::Action action;
    bool first = false;  ///< of a boundary of ranks that share several: not waited for
  };
  /// A shape on its way.
  struct Announced {
    program::Action action;
    std::vector<std::int64_t> message;
    std::unique_ptr<comm::Transfer> transfer;
  };
  /// Messages of one stream from or to one peer.
  struct Lane {
    std::deque<program::Action> expected;
    std::optional<Posted> incoming;
    std::deque<Posted> outgoing;
    std::deque<Announced> announced;
  };
  using LaneKey = std::pair<int, comm::Stream>;

  LaneKey lane_of(const program::Action& action) const;
  void post_next(LaneKey key);
  Posted post(const program::Action& action, LaneKey key);
  void wait(Posted& posted);
  /// Until another message may join those that are under way.
  void make_room(Lane& lane);
  void finish(Lane& lane);
  ValuesShape receive_shape(const program::Action& action, LaneKey key);
  void send_shape(const program::Action& action, LaneKey key, const ValuesShape& shape);
  ValuesShape shape_of_message(const program::Action& action) const;

  comm::Channel& channel_;
  std::vector<int> world_rank_;
  std::vector<int> rank_of_layer_;
  bool shares_ranks_;  ///< some rank has several runs of layers
  c10::Device device_;
  std::map<LaneKey, Lane> lanes_;
  std::map<int, ValuesShape> output_shapes_;  ///< of x[i], known after its first message
};

}  // namespace trireme::runtime
