// SPDX-License-Identifier: Apache-2.0
#include "trireme/runtime/reducer.h"

#include "tensor_bytes.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/runtime/replica_sum.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <sstream>
#include <tuple>

namespace trireme::runtime {
namespace {

/// Sum of squares in blocks of fixed size: the same bits for every number of threads.
double sum_of_squares(const at::Tensor& values);

/// One parameter's share of the norm, with its place in the chain.
struct NormPart {
  std::int64_t layer = 0;
  std::int64_t index = 0;
  double squares = 0;
};

/// Every rank of a pipeline: all ranks' parts in chain order.
std::vector<NormPart> parts_of_chain(comm::Channel& channel, const Position& position,
                                     const std::vector<NormPart>& mine);

}  // namespace

Position Position::of(int world_rank, int replicas, int stages) {
  return {.replicas = replicas,
          .stages = stages,
          .replica = world_rank / stages,
          .pipeline_rank = world_rank % stages};
}

std::vector<int> Position::pipeline_group() const {
  std::vector<int> group;
  for (int r = 0; r < stages; ++r) group.push_back(replica * stages + r);
  return group;
}

std::vector<int> Position::replica_group() const {
  std::vector<int> group;
  for (int r = 0; r < replicas; ++r) group.push_back(r * stages + pipeline_rank);
  return group;
}

Reducer::Reducer(comm::Channel& channel, Position position, Stage& stage)
    : channel_(channel), position_(position), stage_(stage) {
  learn_ties();
}

void Reducer::learn_ties() {
  std::ostringstream mine;
  for (const StageParameter& parameter : stage_.parameters()) {
    if (!parameter.tie.empty())
      mine << parameter.layer << ' ' << parameter.index << ' ' << digest_of(parameter.value) << ' '
           << parameter.tie << '\n';
  }
  const std::vector<int> group = position_.pipeline_group();
  const auto all = comm::all_gather(channel_, group, mine.str(), "exchange of tied weights");
  std::map<std::string, std::pair<std::string, int>> first_values;  // digest, and whose it is
  for (std::size_t r = 0; r < all.size(); ++r) {
    std::istringstream lines(all[r]);
    Use use{.rank = group[r]};
    std::string tie, values;
    while (lines >> use.layer >> use.index >> values && std::getline(lines >> std::ws, tie)) {
      const auto known = first_values.emplace(tie, std::pair(values, use.layer)).first;
      if (known->second.first != values)
        throw unlike_uses(tie, concat("layer ", known->second.second), concat("layer ", use.layer));
      ties_[tie].push_back(use);
    }
  }
  for (auto& [tie, uses] : ties_) {
    std::sort(uses.begin(), uses.end(), [](const Use& a, const Use& b) {
      return std::tie(a.layer, a.index) < std::tie(b.layer, b.index);
    });
  }
}

void Reducer::reduce() {
  for (const auto& [tie, uses] : ties_) reduce_tie(tie, uses);
  sum_over_replicas(channel_, position_.replica_group(), stage_.gradients().flat(),
                    "sum of gradients over replicas");
}

void Reducer::reduce(int streamed_layer) {
  sum_over_replicas(channel_, position_.replica_group(),
                    stage_.streamed_gradients(streamed_layer)->flat(),
                    "sum of streamed gradients over replicas");
}

void Reducer::note_norm(int streamed_layer) {
  const std::vector<StageParameter>& parameters = stage_.parameters();
  std::vector<std::size_t> places;
  std::vector<at::Tensor> gradients;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].layer != streamed_layer || !parameters[i].is_streamed) continue;
    places.push_back(i);
    gradients.push_back(parameters[i].gradient);
  }
  if (stage_.device().is_cpu()) {
    for (std::size_t i = 0; i < places.size(); ++i)
      squares_[places[i]] = sum_of_squares(gradients[i]);
    return;
  }
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> norms = at::_foreach_norm(gradients, 2);
  for (std::size_t i = 0; i < places.size(); ++i) norms_[places[i]] = norms[i];
}

void Reducer::reduce_tie(const std::string& tie, const std::vector<Use>& uses) {
  std::vector<at::Tensor> mine;
  for (const StageParameter& parameter : stage_.parameters()) {
    if (parameter.tie == tie && parameter.is_trained) mine.push_back(parameter.gradient);
  }
  if (mine.empty()) return;
  const std::string what = concat("gradient of the tied weight '", tie, "'");
  const int owner = uses.front().rank;
  std::set<int> others;
  for (const Use& use : uses) {
    if (use.rank != owner) others.insert(use.rank);
  }
  if (channel_.rank() != owner) {
    for (const at::Tensor& gradient : mine)
      channel_.send(bytes_of(gradient), owner, comm::Stream::kControl)->wait(what);
    channel_.receive(writable_bytes_of(mine.front()), owner, comm::Stream::kControl)->wait(what);
    return;
  }
  at::Tensor sum = mine.front();
  std::size_t own_use = 1;
  for (std::size_t u = 1; u < uses.size(); ++u) {
    if (uses[u].rank == owner) {
      sum.add_(mine.at(own_use++));
      continue;
    }
    const at::Tensor theirs = at::empty_like(sum);
    channel_.receive(writable_bytes_of(theirs), uses[u].rank, comm::Stream::kControl)->wait(what);
    sum.add_(theirs);
  }
  for (const int other : others)
    channel_.send(bytes_of(sum), other, comm::Stream::kControl)->wait(what);
}

double Reducer::global_norm() {
  std::vector<NormPart> mine;
  for (std::size_t i = 0; i < stage_.parameters().size(); ++i) {
    const StageParameter& parameter = stage_.parameters()[i];
    if (!parameter.is_trained || !is_first_use(parameter)) continue;
    const double squares =
        parameter.is_streamed ? squares_.at(i) : sum_of_squares(parameter.gradient);
    mine.push_back({parameter.layer, parameter.index, squares});
  }
  double total = 0;
  for (const NormPart& part : parts_of_chain(channel_, position_, mine)) total += part.squares;
  return std::sqrt(total);
}

at::Tensor Reducer::global_norm_on_device() {
  std::vector<at::Tensor> gradients;
  std::vector<NormPart> mine;
  std::vector<at::Tensor> norms;  // undefined: the next of the gradients'
  for (std::size_t i = 0; i < stage_.parameters().size(); ++i) {
    const StageParameter& parameter = stage_.parameters()[i];
    if (!parameter.is_trained || !is_first_use(parameter)) continue;
    norms.push_back(parameter.is_streamed ? norms_.at(i) : at::Tensor());
    if (!parameter.is_streamed) gradients.push_back(parameter.gradient);
    mine.push_back({parameter.layer, parameter.index, 0});
  }
  const auto doubles = at::TensorOptions(at::kDouble);
  at::Tensor squares = at::zeros({0}, doubles.device(stage_.device()));
  std::vector<at::Tensor> computed;
  if (!gradients.empty()) computed = at::_foreach_norm(gradients, 2);
  auto next = computed.begin();
  for (at::Tensor& norm : norms)
    if (!norm.defined()) norm = *next++;
  if (!mine.empty()) squares = at::stack(norms).to(at::kDouble).square_();
  if (position_.stages > 1) {
    const at::Tensor on_host = squares.cpu();
    for (std::size_t i = 0; i < mine.size(); ++i) mine[i].squares = on_host.data_ptr<double>()[i];
    std::vector<double> of_chain;
    for (const NormPart& part : parts_of_chain(channel_, position_, mine))
      of_chain.push_back(part.squares);
    squares = at::tensor(of_chain, doubles).to(stage_.device());
  }
  return squares.sum().sqrt_();
}

bool Reducer::is_first_use(const StageParameter& parameter) const {
  if (parameter.tie.empty()) return true;
  const Use& first = ties_.at(parameter.tie).front();
  return first.layer == parameter.layer && first.index == parameter.index;
}

namespace {

std::vector<NormPart> parts_of_chain(comm::Channel& channel, const Position& position,
                                     const std::vector<NormPart>& mine) {
  std::vector<NormPart> parts;
  for (const auto& of_rank :
       comm::all_gather(channel, position.pipeline_group(), mine, "norm of the gradients"))
    parts.insert(parts.end(), of_rank.begin(), of_rank.end());
  std::sort(parts.begin(), parts.end(), [](const NormPart& a, const NormPart& b) {
    return std::tie(a.layer, a.index) < std::tie(b.layer, b.index);
  });
  return parts;
}

double sum_of_squares(const at::Tensor& values) {
  constexpr std::int64_t kBlock = 1 << 14;
  const float* const data = values.const_data_ptr<float>();
  const std::int64_t count = values.numel();
  std::vector<double> blocks(static_cast<std::size_t>((count + kBlock - 1) / kBlock));
  at::parallel_for(0, static_cast<std::int64_t>(blocks.size()), 1,
                   [&](std::int64_t first, std::int64_t last) {
                     for (std::int64_t b = first; b < last; ++b) {
                       std::array<double, 16>
                           lanes{};  // independent sums, so that the loop fills vector registers
                       std::int64_t i = b * kBlock;
                       const std::int64_t end = std::min(count, i + kBlock);
                       for (; i + 16 <= end; i += 16) {
                         for (std::size_t l = 0; l < 16; ++l) {
                           const double value = data[i + static_cast<std::int64_t>(l)];
                           lanes[l] += value * value;
                         }
                       }
                       for (; i < end; ++i) lanes[0] += static_cast<double>(data[i]) * data[i];
                       double sum = 0;
                       for (const double lane : lanes) sum += lane;
                       blocks[static_cast<std::size_t>(b)] = sum;
                     }
                   });
  double total = 0;
  for (const double block : blocks) total += block;
  return total;
}

}  // namespace
}  // namespace trireme::runtime
