// SPDX-License-Identifier: Apache-2.0
#include "trireme/runtime/state_layout.h"

#include "trireme/model/update.h"
#include "trireme/tier/outer_store.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

namespace trireme::runtime {
namespace {

constexpr std::int64_t kNumber = sizeof(float);

/// Bytes of the state that may leave, by parameter.
std::vector<std::int64_t> movable(const config::OptimizerSpec& spec,
                                  const std::vector<StageParameter>& parameters,
                                  const std::vector<Row>& rows) {
  std::vector<std::int64_t> bytes;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const StageParameter& parameter = parameters[i];
    const bool moves = rows[i].count > 0 && lies_in_a_row(parameter);
    bytes.push_back(moves ? rows[i].count * kNumber * state_kinds(spec, parameter).count() : 0);
  }
  return bytes;
}

/// Large ones first, as long as they are not too much; what is left to the smallest that covers it,
/// for which those stay that are then not needed: what is too much is less than any that is away.
std::vector<bool> chosen(const std::vector<std::int64_t>& bytes, std::int64_t away) {
  std::vector<std::size_t> by_size(bytes.size());
  std::iota(by_size.begin(), by_size.end(), std::size_t{0});
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](std::size_t a, std::size_t b) { return bytes[a] > bytes[b]; });
  std::vector<bool> is_away(bytes.size());
  std::optional<std::size_t> last;
  for (const std::size_t i : by_size) {
    if (bytes[i] == 0) continue;
    if (bytes[i] <= away) {
      is_away[i] = true;
      away -= bytes[i];
    } else {
      last = i;
    }
  }
  if (away == 0 || !last) return is_away;
  std::int64_t too_much = bytes[*last] - away;
  for (const std::size_t i : by_size) {
    if (!is_away[i] || bytes[i] > too_much) continue;
    is_away[i] = false;
    too_much -= bytes[i];
  }
  is_away[*last] = true;
  return is_away;
}

}  // namespace

StateKinds state_kinds(const config::OptimizerSpec& spec, const StageParameter& parameter) {
  return {.master = parameter.weight.scalar_type() != at::kFloat,
          .first = model::has_first_moments(spec),
          .second = model::has_second_moments(spec)};
}

StateLayout lay_out_state(const config::OptimizerSpec& spec,
                          const std::vector<StageParameter>& parameters, Bytes away, Bytes part) {
  return lay_out_state(spec, parameters, away, part, whole_rows(parameters));
}

StateLayout lay_out_state(const config::OptimizerSpec& spec,
                          const std::vector<StageParameter>& parameters, Bytes away, Bytes part,
                          std::vector<Row> rows) {
  StateLayout layout{.rows = std::move(rows), .is_away = {}, .parts = {}};
  layout.is_away = chosen(movable(spec, parameters, layout.rows), away.count());
  const std::int64_t most = part.count() / kNumber;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!layout.is_away[i]) continue;
    const int kinds = state_kinds(spec, parameters[i]).count();
    const std::int64_t end = layout.rows[i].end();
    const int layer = parameters[i].is_streamed ? parameters[i].layer : 0;
    for (std::int64_t begin = layout.rows[i].begin; begin < end;) {
      const std::int64_t least = std::min(end - begin, Row::kAlignment);
      const auto room = [&] { return (most - layout.parts.back().numbers) / kinds; };
      if (layout.parts.empty() || layout.parts.back().streamed_layer != layer ||
          room() < Row::aligned(least))
        layout.parts.emplace_back().streamed_layer = layer;
      StatePart& into = layout.parts.back();
      const std::int64_t fits = room() / Row::kAlignment * Row::kAlignment;
      const std::int64_t count = std::min(end - begin, std::max(least, fits));
      into.slices.push_back(
          {.parameter = i, .begin = begin, .count = count, .offset = into.numbers});
      into.numbers += kinds * into.slices.back().stride();
      begin += count;
    }
  }
  return layout;
}

Bytes StateLayout::room() const {
  Bytes sum;
  for (const StatePart& part : parts)
    sum += tier::OuterStore::room_for(Bytes(part.numbers * kNumber));
  return sum;
}

}  // namespace trireme::runtime
