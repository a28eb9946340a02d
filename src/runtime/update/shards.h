// Sharded optimizer (ZeRO stage 1, Rajbhandari et al. 2020): replicas have the same parameters;
// each updates one shard of them and holds moments and masters of that shard alone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "state/row.h"
#include "state/stage.h"

#include "trireme/comm/channel.h"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace trireme::runtime {

/// How the replicas of one rank divide its parameters. Each flat buffer of gradients is cut evenly,
/// also within parameters: that of the parameters that stay on the device (group 0), and that of
/// each layer whose trained weights are streamed (its number). Rows end at multiples of
/// Row::kAlignment or at a parameter's end, so that an update has the bits of an undivided one.
/// Parameters that do not lie in a row are updated by every member.
class Shards {
 public:
  /// `members` are the replicas of this rank in their order, itself included; or it alone: then it
  /// owns everything and the functions below do nothing. The stage must outlive it.
  Shards(comm::Channel& channel, std::vector<int> members, Stage& stage);

  bool are_several() const { return members_.size() > 1; }
  /// By parameter: what this member updates; a count of 0 where others do.
  const std::vector<Row>& mine() const { return rows_[me_]; }
  /// Whether each number of a parameter is updated by exactly one member.
  bool is_divided(std::size_t parameter) const;

  // Collectives: every member calls them in the same order; other members' numbers are undefined in
  // between.

  /// Reduce-scatter: the group's gradients are complete; this member's own numbers become the sum
  /// over members.
  void sum(int group);
  /// All-gather of a group's updated weights. Overwrites its gradients, which are no longer needed.
  void share(int group);

  /// Numbers of a parameter's gradient that are summed up to one value.
  struct Unit {
    std::size_t parameter = 0;
    Row row;
  };
  /// Units of the group's parameters that `counts` selects, in their order: `most` numbers each,
  /// fewer at a parameter's end.
  std::vector<Unit> units(int group, const std::vector<bool>& counts, std::int64_t most) const;
  /// By member: the units that it owns, those that begin in its part.
  std::vector<comm::BufferRange> owned(int group, const std::vector<Unit>& units) const;
  std::size_t me() const { return me_; }
  /// After sum(): gives each unit's owner all numbers of the unit.
  void complete(int group, const std::vector<Unit>& units);
  /// All-gather of `values`, one number for each unit, contiguous: each as its owner has it.
  void gather(int group, const std::vector<Unit>& units, const at::Tensor& values);
  /// All numbers of a divided parameter in one dimension, on the host; `row` has this member's.
  at::Tensor whole(std::size_t parameter, const at::Tensor& row);

 private:
  /// A flat buffer of gradients.
  struct Group {
    at::Tensor flat;
    std::vector<std::size_t> parameters;   ///< in the order of the buffer
    std::vector<comm::BufferRange> parts;  ///< of the buffer, by member; together all of it
  };
  void add_group(int number, const at::Tensor& flat);
  /// Cuts the buffer evenly, whatever the parameters' sizes.
  void cut(Group& group);
  /// Where a parameter's numbers begin in the flat buffer.
  std::int64_t offset(std::size_t parameter) const;
  /// The member in whose part of the flat buffer a number is.
  std::size_t owner(const Group& group, std::int64_t number) const;
  /// All-gather of these numbers of the flat buffer over the members `among`, each of which has
  /// some.
  void complete(const Group& group, std::int64_t begin, std::int64_t end,
                const comm::BufferRange& among);
  /// The numbers of a weight that a member updates, and their place in the buffer that is sent.
  struct Move {
    at::Tensor weight, packed;
  };
  /// The member's moves, packed from the beginning of its part of the flat buffer.
  std::vector<Move> packed(const Group& group, std::size_t member) const;

  comm::Channel& channel_;
  std::vector<int> members_;
  std::size_t me_ = 0;
  Stage& stage_;
  std::map<int, Group> groups_;
  std::vector<std::vector<Row>> rows_;  ///< by member, by parameter
  std::vector<bool> everywhere_;        ///< by parameter: every member updates it
};

}  // namespace trireme::runtime
