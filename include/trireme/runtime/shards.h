// Sharded optimizer state: each replica updates a part of the parameters that all have, and holds
// moments and masters of that part alone (ZeRO stage 1, Rajbhandari et al. 2020).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/comm/channel.h"
#include "trireme/runtime/row.h"
#include "trireme/runtime/stage.h"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace trireme::runtime {

/// How the replicas of one rank divide its parameters. Those whose gradients lie in one flat buffer
/// are cut together, where that comes out even: parameters that stay (group 0), and those of each
/// layer whose trained weights are streamed (its number). Only the last number of a parameter ends
/// a row elsewhere than at a multiple of Row::kAlignment, so that an update has the bits of
/// one of all numbers. What does not lie in a row is updated by every member.
class Shards {
 public:
  /// `members` are the replicas of this rank in their order, which it is one of, or it alone: then
  /// all is its own and nothing below does anything. The stage must outlive it.
  Shards(comm::Channel& channel, std::vector<int> members, Stage& stage);

  bool are_several() const { return members_.size() > 1; }
  /// By parameter: what this member updates; a count of 0 where others do.
  const std::vector<Row>& mine() const { return rows_[me_]; }
  /// Whether each number of a parameter is updated by one member alone, as if by all of them.
  bool is_divided(std::size_t parameter) const;

  // Every member, in the same order; nothing is said of other members' numbers in between.

  /// Gradients of a group are whole: this member's own numbers become the members' sum.
  void sum(int group);
  /// The updated weights of a group reach every member. Takes its gradients' bytes: they are of no
  /// more use.
  void share(int group);

  /// What is summed up as one number: some of a parameter's gradient.
  struct Unit {
    std::size_t parameter = 0;
    Row row;
  };
  /// Units of those parameters of a group that `counts` names, in their order: `most` numbers each,
  /// and what is left of a parameter.
  std::vector<Unit> units(int group, const std::vector<bool>& counts, std::int64_t most) const;
  /// Which of them are each member's: those that begin in its part.
  std::vector<comm::Part> owned(int group, const std::vector<Unit>& units) const;
  std::size_t me() const { return me_; }
  /// After sum(): its owner has all numbers of a unit.
  void complete(int group, const std::vector<Unit>& units);
  /// `values`, one number for each unit, contiguous: each as its owner has it.
  void gather(int group, const std::vector<Unit>& units, const at::Tensor& values);
  /// On host: all numbers of a divided parameter in one dimension, of which `row` has mine().
  at::Tensor whole(std::size_t parameter, const at::Tensor& row);

 private:
  /// A flat buffer of gradients.
  struct Group {
    at::Tensor flat;
    std::vector<std::size_t> parameters;  ///< in the order of the buffer
    std::vector<comm::Part> parts;        ///< of the buffer, by member; together all of it
  };
  void add_group(int number, const at::Tensor& flat);
  /// Evenly, whatever the parameters' sizes.
  void cut(Group& group);
  /// Where a parameter's numbers begin in the flat buffer.
  std::int64_t offset(std::size_t parameter) const;
  /// In whose part of the flat buffer a number is.
  std::size_t owner(const Group& group, std::int64_t number) const;
  /// The members `among` all of which have some of these numbers of the flat buffer have all.
  void complete(const Group& group, std::int64_t begin, std::int64_t end, const comm::Part& among);
  /// What a member updates of a weight, and where that stands on its way.
  struct Move {
    at::Tensor weight, packed;
  };
  /// One behind the other, from where the member's part of the flat buffer begins.
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
