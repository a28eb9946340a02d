// Choices: a decision in all axes. The planner then finds the cut and the programs for it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/partition/problem.h"

#include <optional>
#include <string>
#include <vector>

namespace trireme::partition {

/// One point of the search, with a value for every axis. See Freedom for their meaning.
struct Choices {
  std::string solver = "auto";
  double breadth = 1;  ///< breadth of the solver's search (Effort::breadth)
  int slots = 500;     ///< slots of its tables (Effort::slots)
  Seconds optimizer_copies{0};
  std::vector<int> streamed = {};
  int weights_at_once = program::kLeastAtOnce;
  int group = 1;
  program::UpdatePlace updates = program::UpdatePlace::kAtEnd;
  std::optional<Bytes> update_window = {};
  std::vector<Bytes> more = {};
  std::optional<std::vector<int>> cut = {};  ///< empty: the question's
  bool splits_backward = false;
  std::string chunks = "none";  ///< Freedom::chunks

  bool operator==(const Choices&) const = default;
};

/// The question with everything fixed but the cut and the programs. A margin of the budget stays
/// free where programs are made for more than it.
Question settled(const Question& question, const Choices& choices);

/// The question's fixed values; everything else on the device, micro-batches one by one, whole
/// backwards.
Choices plainest(const Question& question);

/// Values of Freedom::chunks that are no schedule's names.
inline constexpr const char *kNoChunks = "none", *kSearchedChunks = "auto";
/// Whether every plan has the placement and order of a named schedule.
bool has_named_schedule(const Question& question);

/// The choices without split backwards.
Choices with_whole_backwards(Choices choices);

/// Canonical form of the choices: without streamed layers that would all be on the device at a time
/// anyway, and, where none are streamed, without settings for streamed weights, as far as the
/// question leaves these open.
Choices tidy(const Question& question, Choices choices);

/// The choices with these layers streamed, and with an overlapped optimizer step where none were
/// streamed before.
Choices streaming(const Question& question, Choices choices, std::vector<int> layers);

/// "joint, 12 layers streamed (3 on the device), ...": differences from the plainest choices.
std::string to_text(const Choices& choices);

/// Place of an overlapped optimizer step where clipping, replicas and frozen weights allow one;
/// else kAtEnd. Throws InputError where the question asks for one that frozen weights rule out.
program::UpdatePlace updates_among_passes(const Question& question);

}  // namespace trireme::partition
