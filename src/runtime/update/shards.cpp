// SPDX-License-Identifier: Apache-2.0
#include "update/shards.h"

#include "trireme/core/error.h"
#include "trireme/runtime/replica_sum.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <utility>

namespace trireme::runtime {
namespace {

constexpr std::size_t kLine = 64;  ///< packed weights begin on cache lines

bool is_updated(const StageParameter& parameter) {
  return parameter.is_trained && !parameter.shares_value;
}

comm::BufferRange scaled(const comm::BufferRange& part, std::size_t by) {
  return {.begin = part.begin * by, .size = part.size * by};
}

}  // namespace

Shards::Shards(comm::Channel& channel, std::vector<int> members, Stage& stage)
    : channel_(channel),
      members_(std::move(members)),
      stage_(stage),
      rows_(members_.size(), whole_rows(stage.parameters())),
      everywhere_(stage.parameters().size()) {
  const auto me = std::find(members_.begin(), members_.end(), channel.rank());
  ensure(me != members_.end(), "a member of the replicas that divide their parameters");
  me_ = static_cast<std::size_t>(me - members_.begin());
  add_group(0, stage.gradients().flat());
  for (const int layer : stage.layers())
    if (const model::GradientSums* const sums = stage.streamed_gradients(layer))
      add_group(layer, sums->flat());
}

void Shards::add_group(int number, const at::Tensor& flat) {
  Group& group = groups_[number];
  group.flat = flat;
  const std::vector<StageParameter>& all = stage_.parameters();
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i].is_trained && number == (all[i].is_streamed ? all[i].layer : 0))
      group.parameters.push_back(i);
  cut(group);
}

void Shards::cut(Group& group) {
  const std::vector<StageParameter>& all = stage_.parameters();
  std::vector<std::size_t> divided;
  std::int64_t total = 0, before = 0;
  for (const std::size_t i : group.parameters) {
    everywhere_[i] = is_updated(all[i]) && !lies_in_a_row(all[i]);
    if (!is_updated(all[i]) || everywhere_[i]) continue;
    divided.push_back(i);
    total += all[i].weight.numel();
  }
  std::vector<std::int64_t> ends;  // of the members' parts of the flat buffer
  const auto members = std::ssize(members_);
  const auto next_cut = [&] { return total * (std::ssize(ends) + 1) / members; };
  for (const std::size_t i : divided) {
    const std::int64_t numbers = all[i].weight.numel();
    while (std::ssize(ends) + 1 < members && next_cut() < before + numbers)
      ends.push_back(offset(i) + std::min(numbers, Row::aligned(next_cut() - before)));
    before += numbers;
  }
  ends.resize(members_.size(), group.flat.numel());
  std::int64_t begin = 0;
  for (std::size_t member = 0; member < members_.size(); ++member) {
    const std::int64_t end = ends[member];
    group.parts.push_back({static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)});
    for (const std::size_t i : divided) {
      const std::int64_t first = std::max(begin, offset(i));
      const std::int64_t last = std::min(end, offset(i) + all[i].weight.numel());
      rows_[member][i] = last > first ? Row{first - offset(i), last - first} : Row{};
    }
    begin = end;
  }
}

bool Shards::is_divided(std::size_t parameter) const {
  return are_several() && is_updated(stage_.parameters()[parameter]) && !everywhere_[parameter];
}

std::int64_t Shards::offset(std::size_t parameter) const {
  return stage_.parameters()[parameter].gradient.storage_offset();
}

std::size_t Shards::owner(const Group& group, std::int64_t number) const {
  const auto after = std::partition_point(
      group.parts.begin(), group.parts.end(), [&](const comm::BufferRange& part) {
        return static_cast<std::int64_t>(part.begin + part.size) <= number;
      });
  return static_cast<std::size_t>(after - group.parts.begin());
}

void Shards::sum(int number) {
  if (!are_several()) return;
  const Group& group = groups_.at(number);
  sum_for_owners(channel_, members_, group.flat, group.parts, "sum of gradients for their owners");
  for (const std::size_t i : group.parameters)
    if (everywhere_[i])
      complete(group, offset(i), offset(i) + stage_.parameters()[i].weight.numel(),
               {0, members_.size()});
}

void Shards::complete(int number, const std::vector<Unit>& units) {
  if (!are_several()) return;
  const Group& group = groups_.at(number);
  for (const Unit& unit : units) {
    const std::int64_t begin = offset(unit.parameter) + unit.row.begin;
    const std::int64_t end = begin + unit.row.count;
    if (unit.row.count == 0) continue;
    const std::size_t first = owner(group, begin), last = owner(group, end - 1);
    if (first < last && me_ >= first && me_ <= last)
      complete(group, begin, end, {first, last - first + 1});
  }
}

void Shards::complete(const Group& group, std::int64_t begin, std::int64_t end,
                      const comm::BufferRange& among) {
  std::vector<comm::BufferRange> parts;
  for (std::size_t member = among.begin; member < among.begin + among.size; ++member) {
    const comm::BufferRange& whole = group.parts[member];
    const auto first = std::max<std::int64_t>(begin, static_cast<std::int64_t>(whole.begin));
    const auto last =
        std::min<std::int64_t>(end, static_cast<std::int64_t>(whole.begin + whole.size));
    parts.push_back(scaled({static_cast<std::size_t>(first),
                            static_cast<std::size_t>(std::max<std::int64_t>(0, last - first))},
                           sizeof(float)));
  }
  gather_from_owners(channel_, std::span(members_).subspan(among.begin, among.size),
                     group.flat.view(at::kByte), parts, "gradients that are cut");
}

std::vector<Shards::Move> Shards::packed(const Group& group, std::size_t member) const {
  const at::Tensor bytes = group.flat.view(at::kByte);
  std::size_t next = group.parts[member].begin * sizeof(float);
  std::vector<Move> moves;
  for (const std::size_t i : group.parameters) {
    const Row& row = rows_[member][i];
    if (row.count == 0 || everywhere_[i]) continue;
    const at::Tensor weight =
        stage_.parameters()[i].weight.detach().view(-1).narrow(0, row.begin, row.count);
    const std::size_t size = weight.nbytes();
    moves.push_back(
        {.weight = weight,
         .packed = bytes.narrow(0, static_cast<std::int64_t>(next), static_cast<std::int64_t>(size))
                       .view(weight.scalar_type())});
    next += (size + kLine - 1) / kLine * kLine;
  }
  return moves;
}

void Shards::share(int number) {
  if (!are_several()) return;
  const at::NoGradGuard no_grad;
  const Group& group = groups_.at(number);
  std::vector<at::Tensor> weights, gathered;  // those of the other members
  std::vector<comm::BufferRange> parts;
  for (std::size_t member = 0; member < members_.size(); ++member) {
    comm::BufferRange& part = parts.emplace_back(scaled(group.parts[member], sizeof(float)));
    const std::vector<Move> moves = packed(group, member);
    part.size = 0;
    for (const Move& move : moves) {
      part.size =
          static_cast<std::size_t>(move.packed.storage_offset()) * move.packed.element_size() +
          move.packed.nbytes() - part.begin;
      if (member == me_) {
        move.packed.copy_(move.weight);
      } else {
        weights.push_back(move.weight);
        gathered.push_back(move.packed);
      }
    }
  }
  gather_from_owners(channel_, members_, group.flat.view(at::kByte), parts, "updated weights");
  if (!weights.empty()) at::_foreach_copy_(weights, gathered);
}

std::vector<Shards::Unit> Shards::units(int number, const std::vector<bool>& counts,
                                        std::int64_t most) const {
  std::vector<Unit> units;
  for (const std::size_t i : groups_.at(number).parameters) {
    if (!counts[i]) continue;
    const std::int64_t numbers = stage_.parameters()[i].weight.numel();
    for (std::int64_t begin = 0; begin < numbers; begin += most)
      units.push_back({i, {begin, std::min(most, numbers - begin)}});
  }
  return units;
}

std::vector<comm::BufferRange> Shards::owned(int number, const std::vector<Unit>& units) const {
  const Group& group = groups_.at(number);
  std::vector<comm::BufferRange> parts(members_.size());
  for (const Unit& unit : units)
    ++parts[owner(group, offset(unit.parameter) + unit.row.begin)].size;
  for (std::size_t member = 1; member < parts.size(); ++member)
    parts[member].begin = parts[member - 1].begin + parts[member - 1].size;
  return parts;
}

void Shards::gather(int number, const std::vector<Unit>& units, const at::Tensor& values) {
  if (!are_several()) return;
  std::vector<comm::BufferRange> parts;
  for (const comm::BufferRange& part : owned(number, units))
    parts.push_back(scaled(part, values.element_size()));
  gather_from_owners(channel_, members_, values.view(at::kByte), parts, "norm of the gradients");
}

at::Tensor Shards::whole(std::size_t parameter, const at::Tensor& row) {
  const at::Tensor mine = row.cpu().contiguous();
  ensure(mine.numel() == rows_[me_][parameter].count, "a member gives what is its own");
  const at::Tensor all = at::empty({stage_.parameters()[parameter].weight.numel()}, mine.options());
  const std::size_t size = all.element_size();
  std::vector<comm::BufferRange> parts;
  for (const std::vector<Row>& rows : rows_) {
    const Row& of_member = rows[parameter];
    parts.push_back({static_cast<std::size_t>(of_member.begin) * size,
                     static_cast<std::size_t>(of_member.count) * size});
  }
  all.narrow(0, rows_[me_][parameter].begin, mine.numel()).copy_(mine.view(-1));
  gather_from_owners(channel_, members_, all.view(at::kByte), parts, "whole parameters");
  return all;
}

}  // namespace trireme::runtime
