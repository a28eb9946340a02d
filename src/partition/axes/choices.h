// What axes choose. A cut and programs are then found for it; everything else is given.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/partition/problem.h"

#include <optional>
#include <string>
#include <vector>

namespace trireme::partition {

/// One point of the search: a value of every axis. See Freedom for what each of them means.
struct Choices {
  std::string solver = "auto";
  double breadth = 1;  ///< of the solver's search (Effort::breadth)
  int slots = 500;     ///< of its tables (Effort::slots)
  Seconds optimizer_copies{0};
  std::vector<int> streamed = {};
  int weights_at_once = program::kLeastAtOnce;
  int group = 1;
  program::UpdatePlace updates = program::UpdatePlace::kAtEnd;
  std::optional<Bytes> update_window = {};
  std::vector<Bytes> more = {};
  std::optional<std::vector<int>> cut = {};  ///< nothing: as the question has it
  bool splits_backward = false;

  bool operator==(const Choices&) const = default;
};

/// The question with nothing open but the cut and the programs. Where these are made for more than
/// a budget, a little of it stays free.
Question settled(const Question& question, const Choices& choices);

/// What the question gives, all else on the device, micro-batches one by one, backwards whole.
Choices plainest(const Question& question);

/// The same choices with whole backwards.
Choices with_whole_backwards(Choices choices);

/// The same choices without streamed layers that would all be on the device at a time anyway, and
/// without what is for streamed weights alone where none are, as far as the question leaves that
/// open: one point has one spelling.
Choices tidy(const Question& question, Choices choices);

/// The same choices with these layers streamed, and updated among the passes where none were
/// before.
Choices streaming(const Question& question, Choices choices, std::vector<int> layers);

/// "joint, 12 layers streamed 3 at a time, ...": what differs from the plainest choices.
std::string to_text(const Choices& choices);

/// Where streamed layers are updated among the passes if clipping, replicas and frozen weights
/// allow it; else at the end. Throws InputError where the question asks for what frozen weights
/// cannot have.
program::UpdatePlace updates_among_passes(const Question& question);

}  // namespace trireme::partition
