// SPDX-License-Identifier: Apache-2.0
#include "update/gradient_norm.h"

#include "trireme/core/error.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <tuple>
#include <utility>

namespace trireme::runtime {
namespace {

/// Numbers whose squares are summed to one value, whatever the number of threads and owners. On CPU
/// no more than fit into a cache; elsewhere many, since each unit is an entry in a kernel's lists.
constexpr std::int64_t kUnitOnCpu = 1 << 14, kUnitElsewhere = 1 << 20;

double sum_of_squares(const float* data, std::int64_t count) {
  std::array<double, 16> lanes{};  // independent sums, so that the loop fills vector registers
  std::int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    for (std::size_t l = 0; l < 16; ++l) {
      const double value = data[i + static_cast<std::int64_t>(l)];
      lanes[l] += value * value;
    }
  }
  for (; i < count; ++i) lanes[0] += static_cast<double>(data[i]) * data[i];
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

/// Zeros. On CPU they are in memory that no budget counts (a few numbers per parameter): those of
/// streamed layers are held from their backwards on, when memory may be short.
at::Tensor uncounted_zeros(std::int64_t count, c10::Device device) {
  const auto options = at::TensorOptions(at::kDouble).device(device);
  if (!device.is_cpu()) return at::zeros({count}, options);
  auto numbers = std::make_unique<double[]>(static_cast<std::size_t>(count));
  double* const data = numbers.get();
  return at::from_blob(
      data, {count}, [held = std::shared_ptr<double[]>(std::move(numbers))](void*) {}, options);
}

std::span<const double> numbers_of(const at::Tensor& doubles) {
  return {doubles.const_data_ptr<double>(), static_cast<std::size_t>(doubles.numel())};
}

}  // namespace

GradientNorm::GradientNorm(comm::Channel& channel, Position position, const Stage& stage,
                           Shards& shards, std::vector<bool> counts)
    : channel_(channel),
      position_(position),
      stage_(stage),
      shards_(shards),
      counts_(std::move(counts)) {}

void GradientNorm::note(int streamed_layer) {
  noted_[streamed_layer] = squares(streamed_layer);
}

GradientNorm::Squares GradientNorm::squares(int group) {
  const at::NoGradGuard no_grad;
  const bool on_cpu = stage_.device().is_cpu();
  Squares found;
  found.units = shards_.units(group, counts_, on_cpu ? kUnitOnCpu : kUnitElsewhere);
  found.values = uncounted_zeros(std::ssize(found.units), stage_.device());
  shards_.complete(group, found.units);
  const comm::BufferRange mine = shards_.owned(group, found.units)[shards_.me()];
  if (mine.size > 0) on_cpu ? sum_on_cpu(found, mine) : sum_on_device(found, mine);
  shards_.gather(group, found.units, found.values);
  return found;
}

void GradientNorm::sum_on_cpu(const Squares& into, const comm::BufferRange& mine) const {
  double* const values = into.values.mutable_data_ptr<double>();
  const auto begin = static_cast<std::int64_t>(mine.begin);
  at::parallel_for(begin, begin + static_cast<std::int64_t>(mine.size), 1,
                   [&](std::int64_t first, std::int64_t last) {
                     for (std::int64_t u = first; u < last; ++u) {
                       const auto& [parameter, row] = into.units[static_cast<std::size_t>(u)];
                       const at::Tensor& gradient = stage_.parameters()[parameter].gradient;
                       values[u] =
                           sum_of_squares(gradient.const_data_ptr<float>() + row.begin, row.count);
                     }
                   });
}

void GradientNorm::sum_on_device(const Squares& into, const comm::BufferRange& mine) const {
  std::vector<at::Tensor> rows;
  for (std::size_t u = mine.begin; u < mine.begin + mine.size; ++u) {
    const auto& [parameter, row] = into.units[u];
    rows.push_back(
        stage_.parameters()[parameter].gradient.view(-1).narrow(0, row.begin, row.count));
  }
  const at::Tensor norms = at::stack(at::_foreach_norm(rows, 2));
  into.values.narrow(0, static_cast<std::int64_t>(mine.begin), static_cast<std::int64_t>(mine.size))
      .copy_(norms.to(at::kDouble).square_());
}

GradientNorm::Squares GradientNorm::of_rank() {
  Squares stay = squares(0);
  if (noted_.empty()) return stay;
  Squares all;
  std::vector<at::Tensor> values;
  std::map<int, std::int64_t> next;  // by group: its next unit
  for (std::size_t i = 0; i < stage_.parameters().size(); ++i) {
    const StageParameter& parameter = stage_.parameters()[i];
    if (!counts_[i]) continue;
    const int number = parameter.is_streamed ? parameter.layer : 0;
    const Squares& group = number == 0 ? stay : noted_.at(number);
    std::int64_t& begin = next[number];
    const std::int64_t first = begin;
    while (begin < std::ssize(group.units) &&
           group.units[static_cast<std::size_t>(begin)].parameter == i)
      all.units.push_back(group.units[static_cast<std::size_t>(begin++)]);
    values.push_back(group.values.narrow(0, first, begin - first));
  }
  all.values = values.empty() ? stay.values : at::cat(values);
  return all;
}

double GradientNorm::value() {
  const Squares mine = of_rank();
  std::vector<PlacedSquares> parameters;  // a sum per parameter over its units
  for (std::size_t u = 0; u < mine.units.size(); ++u) {
    const std::size_t i = mine.units[u].parameter;
    if (u == 0 || mine.units[u - 1].parameter != i) parameters.push_back(place_of(i));
    parameters.back().squares += numbers_of(mine.values)[u];
  }
  double total = 0;
  for (const PlacedSquares& part : of_chain(parameters)) total += part.squares;
  return std::sqrt(total);
}

at::Tensor GradientNorm::value_on_device() {
  const at::NoGradGuard no_grad;
  const Squares mine = of_rank();
  if (position_.stages == 1) return mine.values.sum().sqrt_();
  const at::Tensor on_host = mine.values.cpu();
  std::vector<PlacedSquares> parts;
  for (std::size_t u = 0; u < mine.units.size(); ++u) {
    parts.push_back(place_of(mine.units[u].parameter));
    parts.back().squares = numbers_of(on_host)[u];
  }
  std::vector<double> squares;
  for (const PlacedSquares& part : of_chain(parts)) squares.push_back(part.squares);
  return at::tensor(squares, at::TensorOptions(at::kDouble)).to(stage_.device()).sum().sqrt_();
}

GradientNorm::PlacedSquares GradientNorm::place_of(std::size_t parameter) const {
  const StageParameter& one = stage_.parameters()[parameter];
  return {.layer = one.layer, .index = one.index, .squares = 0};
}

std::vector<GradientNorm::PlacedSquares> GradientNorm::of_chain(
    const std::vector<PlacedSquares>& mine) {
  std::vector<PlacedSquares> parts;
  for (const auto& of_rank :
       comm::all_gather(channel_, position_.pipeline_group(), mine, "norm of the gradients"))
    parts.insert(parts.end(), of_rank.begin(), of_rank.end());
  std::stable_sort(parts.begin(), parts.end(), [](const PlacedSquares& a, const PlacedSquares& b) {
    return std::tie(a.layer, a.index) < std::tie(b.layer, b.index);
  });
  return parts;
}

}  // namespace trireme::runtime
