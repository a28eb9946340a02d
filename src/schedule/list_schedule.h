// Orders by a list: every free rank begins the pass whose planned time is least.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "instance.h"

#include <optional>
#include <vector>

namespace trireme::schedule {

/// What a list schedule prefers.
struct Rule {
  /// By chunk and phase: planned begin of the first micro-batch's pass; each later one has
  /// `period` more.
  std::vector<std::array<Ticks, kPhases>> planned;
  Ticks period = 0;
  /// By chunk: largest number of micro-batches between forward and backward.
  std::vector<int> most_in_flight;
  /// A W begins where nothing else may and what is known to come next is farther away than this
  /// many percent of the W.
  int patience = 100;
};

/// The order in which ranks that follow the rule begin their passes; it holds at most the rooms'
/// bytes. Nothing where ranks wait for room in a stream that several cuts of the chain share: with
/// one cut a stream this does not happen, nor with one micro-batch in flight. One micro-batch must
/// fit on every rank.
std::optional<Lists> list_schedule(const Instance& instance, const Rule& rule);

}  // namespace trireme::schedule
