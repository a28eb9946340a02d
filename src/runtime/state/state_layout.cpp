// SPDX-License-Identifier: Apache-2.0
#include "state/state_layout.h"

#include "trireme/model/update.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

namespace trireme::runtime {
namespace {

constexpr std::int64_t kNumber = sizeof(float);

/// Bytes of state per number, by parameter; 0 if it must stay on the device.
std::vector<std::int64_t> movable(const config::OptimizerSpec& spec,
                                  const std::vector<StageParameter>& parameters) {
  std::vector<std::int64_t> bytes;
  for (const StageParameter& parameter : parameters)
    bytes.push_back(parameter.is_trained && !parameter.shares_value && lies_in_a_row(parameter)
                        ? kNumber * state_kinds(spec, parameter).count()
                        : 0);
  return bytes;
}

/// Row ends with together `bytes` bytes (`each` per number): whole rows, large ones first, as long
/// as they fit, and then the end of the smallest that covers the rest.
std::vector<Row> ends(const std::vector<Row>& rows, const std::vector<std::int64_t>& each,
                      std::int64_t bytes) {
  const auto size = [&](std::size_t i) { return rows[i].count * each[i]; };
  std::vector<std::size_t> by_size(rows.size());
  std::iota(by_size.begin(), by_size.end(), std::size_t{0});
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](std::size_t a, std::size_t b) { return size(a) > size(b); });
  std::vector<Row> offloaded(rows.size());
  std::optional<std::size_t> last;
  for (const std::size_t i : by_size) {
    if (size(i) == 0) continue;
    if (size(i) <= bytes) {
      offloaded[i] = rows[i];
      bytes -= size(i);
    } else {
      last = i;
    }
  }
  if (bytes == 0 || !last) return offloaded;
  const Row& row = rows[*last];
  // Cuts are at multiples of the alignment, wherever the row ends.
  const std::int64_t numbers = (bytes + each[*last] - 1) / each[*last];
  const std::int64_t begin =
      std::max(row.begin, (row.end() - numbers) / Row::kAlignment * Row::kAlignment);
  offloaded[*last] = {begin, row.end() - begin};
  return offloaded;
}

}  // namespace

StateKinds state_kinds(const config::OptimizerSpec& spec, const StageParameter& parameter) {
  return {.master = parameter.weight.scalar_type() != at::kFloat,
          .first = model::has_first_moments(spec),
          .second = model::has_second_moments(spec)};
}

StateLayout lay_out_state(const config::OptimizerSpec& spec,
                          const std::vector<StageParameter>& parameters, Bytes offloaded,
                          Bytes part) {
  return lay_out_state(spec, parameters, offloaded, part, whole_rows(parameters));
}

StateLayout lay_out_state(const config::OptimizerSpec& spec,
                          const std::vector<StageParameter>& parameters, Bytes offloaded,
                          Bytes part, std::vector<Row> rows) {
  StateLayout layout{.rows = std::move(rows), .offloaded = {}, .parts = {}};
  layout.offloaded = ends(layout.rows, movable(spec, parameters), offloaded.count());
  const std::int64_t most = part.count() / kNumber;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (layout.offloaded[i].count == 0) continue;
    const int kinds = state_kinds(spec, parameters[i]).count();
    const std::int64_t end = layout.offloaded[i].end();
    const int layer = parameters[i].is_streamed ? parameters[i].layer : 0;
    for (std::int64_t begin = layout.offloaded[i].begin; begin < end;) {
      const std::int64_t least = std::min(end - begin, Row::kAlignment);
      const auto room = [&] { return (most - layout.parts.back().numbers) / kinds; };
      if (layout.parts.empty() || layout.parts.back().streamed_layer != layer || room() < least)
        layout.parts.emplace_back().streamed_layer = layer;
      StatePart& into = layout.parts.back();
      const std::int64_t fits = room() / Row::kAlignment * Row::kAlignment;
      const std::int64_t count = std::min(end - begin, std::max(least, fits));
      into.slices.push_back(
          {.parameter = i, .begin = begin, .count = count, .offset = into.numbers});
      into.numbers += kinds * count;
      begin += count;
    }
  }
  return layout;
}

Row StateLayout::held(std::size_t parameter) const {
  const Row& row = rows[parameter];
  return {row.begin, row.count - offloaded[parameter].count};
}

Bytes StateLayout::room() const {
  Bytes sum;
  for (const StatePart& part : parts) sum += Bytes(part.numbers * kNumber);
  return sum;
}

}  // namespace trireme::runtime
